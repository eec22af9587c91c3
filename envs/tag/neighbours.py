"""The nearest neighbours of every agent, with memory that stays bounded."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.types import Array

FAR = np.float32(np.inf).view(np.int32)


def nearest(x: Array, y: Array, active: Array, rows: Array | None, k: int, chunk: int) -> tuple[Array, Array]:
    """Return the k nearest other active agents of some agents, nearest first, of equal ones the lowest number first.

    On a CPU a list of the nearest so far takes in one agent after the other, for all at once: twice as fast as
    `lax.top_k` there, and no distance is kept. Elsewhere `lax.top_k` for a part of the agents at a time.

    Args:
      x, y: f32[n].
      active: bool[n], who can be a neighbour.
      rows: i32[m], whose neighbours are searched; None: of all, m = n.
      k: how many.
      chunk: agents whose neighbours are searched together where distances are kept: chunk x n numbers.

    Returns:
      (numbers i32[m, k], found bool[m, k]: False where there are fewer than k, the number then is any).
    """
    search = by_insertion if jax.default_backend() == "cpu" else by_top_k
    # Without the barrier what these come from would be computed again for every pair.
    x, y, active = jax.lax.optimization_barrier((x, y, active))
    return search(x, y, active, rows, k, chunk)


def by_insertion(x: Array, y: Array, active: Array, rows: Array | None, k: int, chunk: int) -> tuple[Array, Array]:
    """Do as `nearest`, agent by agent; `chunk` is of no use here.

    Distances are not negative, so their bits compare as integers do, without a thought of NaN. An agent goes after all
    that are as near, and the list moves on behind it: d_i' = min(d_i, max(d_{i-1}, d)).
    """
    numbers = jnp.arange(x.shape[0], dtype=jnp.int32)
    mine, own_x, own_y = (numbers, x, y) if rows is None else (rows, x[rows], y[rows])

    def take_in(kept: tuple[list[Array], list[Array]], other: tuple[Array, ...]):
        (near, index), (its_x, its_y, there, number) = kept, other
        square = jnp.where(there & (number != mine), (its_x - own_x) ** 2 + (its_y - own_y) ** 2, jnp.inf)
        d = jax.lax.optimization_barrier(jax.lax.bitcast_convert_type(square, jnp.int32))
        closer = [d < known for known in near]
        first = (jnp.minimum(near[0], d), jnp.where(closer[0], number, index[0]))
        rest = [
            (
                jnp.minimum(near[i], jnp.maximum(near[i - 1], d)),
                jnp.where(closer[i], jnp.where(closer[i - 1], index[i - 1], number), index[i]),
            )
            for i in range(1, k)
        ]
        near, index = (list(part) for part in zip(first, *rest, strict=True))
        return jax.lax.optimization_barrier((near, index)), None

    nobody = ([jnp.full(mine.shape, FAR)] * k, [jnp.zeros_like(mine)] * k)
    # Copies of the list are spared by turns of the loop in one, as long as the barrier keeps them from being merged.
    (near, index), _ = jax.lax.scan(take_in, nobody, (x, y, active, numbers), unroll=3)
    return jnp.stack(index, axis=1), jnp.stack(near, axis=1) < FAR


def by_top_k(x: Array, y: Array, active: Array, rows: Array | None, k: int, chunk: int) -> tuple[Array, Array]:
    """Do as `nearest`, for `chunk` agents at a time."""
    n = x.shape[0]
    mine = jnp.arange(n, dtype=jnp.int32) if rows is None else rows
    m = mine.shape[0]

    def search(rows: Array) -> tuple[Array, Array]:
        square = (x[None, :] - x[rows][:, None]) ** 2 + (y[None, :] - y[rows][:, None]) ** 2
        other = active[None, :] & (jnp.arange(n, dtype=jnp.int32)[None, :] != rows[:, None])
        value, index = jax.lax.top_k(-jnp.where(other, square, jnp.inf), min(k, n))
        return index.astype(jnp.int32), value > -jnp.inf

    if chunk >= m:
        index, found = search(mine)
    else:
        parts = -(-m // chunk)
        cut = mine[np.minimum(np.arange(parts * chunk), m - 1)].reshape(parts, chunk)
        index, found = (part.reshape(parts * chunk, -1)[:m] for part in jax.lax.map(search, cut))
    missing = max(k - n, 0)
    return jnp.pad(index, ((0, 0), (0, missing))), jnp.pad(found, ((0, 0), (0, missing)))
