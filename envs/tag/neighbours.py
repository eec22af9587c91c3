"""The nearest neighbours of every agent, found for a part of the agents at a time so that memory stays bounded."""

import jax
import jax.numpy as jnp

from purerl.types import Array


def nearest(x: Array, y: Array, active: Array, k: int, chunk: int) -> tuple[Array, Array]:
    """Return the k nearest other active agents of every agent, nearest first, of equal ones the lowest number first.

    Memory grows with chunk x n numbers, not n x n.

    Args:
      x, y: f32[n].
      active: bool[n], who can be a neighbour.
      k: how many.
      chunk: agents whose neighbours are searched together.

    Returns:
      (numbers i32[n, k], found bool[n, k]: False where there are fewer than k).
    """
    n = x.shape[0]

    def search(rows: Array) -> tuple[Array, Array]:
        square = (x[None, :] - x[rows][:, None]) ** 2 + (y[None, :] - y[rows][:, None]) ** 2
        other = active[None, :] & (jnp.arange(n, dtype=jnp.int32)[None, :] != rows[:, None])
        value, index = jax.lax.top_k(-jnp.where(other, square, jnp.inf), min(k, n))
        return index.astype(jnp.int32), value > -jnp.inf

    if chunk >= n:
        index, found = search(jnp.arange(n, dtype=jnp.int32))
    else:
        parts = -(-n // chunk)
        rows = jnp.minimum(jnp.arange(parts * chunk, dtype=jnp.int32), n - 1).reshape(parts, chunk)
        index, found = (part.reshape(parts * chunk, -1)[:n] for part in jax.lax.map(search, rows))
    missing = max(k - n, 0)
    return jnp.pad(index, ((0, 0), (0, missing))), jnp.pad(found, ((0, 0), (0, missing)))
