"""The nearest neighbors of every agent in the plane, with bounded memory.

Reason: XLA sorts a whole row for `lax.top_k`. Measurement: on a CPU `by_keys` is ten times faster, and on a GPU
`by_minima` stores no distances. Switch: "neighbors", by which `by_top_k` is used everywhere.
"""

from collections.abc import Callable
from functools import partial, reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from purerl.types import Array
from purerl.xla import backend, neighbor_cells, switches

FAR = np.float32(np.inf).view(np.int32)
LANES = 8  # agents whose neighbors one vector register holds
DEPTH = 128  # agents compared in one kernel
PAIRS = 1 << 16  # distances that are kept at a time
MOST = 1 << 14  # agents whose number leaves 9 bits of the distance's fraction


def nearest(x: Array, y: Array, active: Array, rows: Array | None, k: int, chunk: int) -> tuple[Array, Array]:
    """Return the k nearest other active agents of some agents, nearest first; ties by the lowest number.

    On a CPU it finds the smallest keys of distance and number, one after another, for all agents of many crowds at
    once, which is ten times as fast as `lax.top_k`. In large crowds it only looks in the cells around each agent. On a
    GPU it finds the smallest distances, one after another, without storing them; `lax.top_k` would sort all of them.
    Elsewhere it calls `lax.top_k` for a part of the agents at a time.

    Args:
      x, y: f32[n].
      active: bool[n], who can be a neighbor and has neighbors.
      rows: i32[m], the agents whose neighbors are searched; None: all, m = n.
      k: how many neighbors.
      chunk: agents whose neighbors are searched together where distances are kept: chunk x n numbers.

    Returns:
      (numbers i32[m, k], found bool[m, k]: False if there are fewer than k; the number is then arbitrary).
    """
    search = by_top_k
    if switches.is_on("neighbors"):
        on_cpu = by_cells if rows is None and neighbor_cells.fits(x.shape[0], k) else by_keys
        search = {"cpu": on_cpu, "gpu": by_minima}.get(backend.name(), by_top_k)
    # Without the barrier what these come from would be computed again for every pair.
    x, y, active = jax.lax.optimization_barrier((x, y, active))
    number, found = search(x, y, active, rows=rows, k=k, chunk=chunk)
    return number, found & (active if rows is None else active[rows])[:, None]


def by_cells(x: Array, y: Array, active: Array, rows: None, k: int, chunk: int) -> tuple[Array, Array]:
    """Compute `nearest` from the cells around each agent, one crowd after another; `chunk` is ignored."""

    @custom_vmap
    def search(x: Array, y: Array, active: Array) -> tuple[Array, Array]:
        among_all = lambda rows: by_keys(x, y, active, rows=rows, k=k, chunk=chunk)
        return neighbor_cells.search(x, y, active, k, among_all)

    @search.def_vmap
    def _(size: int, batched: list[bool], *given: Array) -> tuple[tuple[Array, Array], tuple[bool, bool]]:
        full = [
            part if has else jnp.broadcast_to(part, (size, *part.shape))
            for part, has in zip(given, batched, strict=True)
        ]
        return jax.lax.map(lambda crowd: search(*crowd), tuple(full)), (True, True)

    return search(x, y, active)


def by_keys(x: Array, y: Array, active: Array, rows: Array | None, k: int, chunk: int) -> tuple[Array, Array]:
    """Compute `nearest` in parts that fit in the cache, over all lanes of enclosing `vmap`s; `chunk` is ignored.

    A key is the bits of a squared distance, which is not negative, the lowest of them replaced by the agent's number:
    keys are ordered as distances are, and all differ. The next key after one is the smallest of the differences to it,
    which wrap around. If two of the keys found differ only in the number, distances decide.
    """
    n = x.shape[0]
    if n > MOST:
        return by_top_k(x, y, active, rows=rows, k=k, chunk=chunk)
    search = custom_vmap(partial(_in_parts, k=min(k, n - 1)))

    @search.def_vmap
    def _(size: int, batched: list[bool], *given: Array) -> tuple[Array, bool]:
        full = [
            part if has else jnp.broadcast_to(part, (size, *part.shape))
            for part, has in zip(given, batched, strict=True)
        ]
        keys = search(*(part.reshape(-1, part.shape[-1]) for part in full))
        return keys.reshape(size, -1, *keys.shape[1:]), True

    rows = jnp.arange(n, dtype=jnp.int32) if rows is None else rows
    keys = jnp.pad(
        search(x[None], y[None], active[None], rows[None])[0], ((0, 0), (0, max(k - n + 1, 0))), constant_values=FAR
    )
    return keys & _low(n), keys < FAR


def _in_parts(x: Array, y: Array, active: Array, rows: Array, k: int) -> Array:
    """Return keys i32[B, m, k] of B crowds f32[B, n] and rows i32[B, m]; only number and whether below FAR count."""
    (crowds, n), m = x.shape, rows.shape[1]
    tiles = -(-m // LANES)
    depth = -(-n // _columns(n))
    # Whole crowds together, or a part of one.
    few = min(tiles, max(1, PAIRS // (LANES * n)))
    many = min(crowds, max(1, PAIRS // (LANES * n * tiles)))
    turns, groups = -(-tiles // few), -(-crowds // many)

    def cut(part: Array, length: int, fill: float) -> Array:
        """Pad f32[B, l] to [groups * many, length]."""
        return jnp.pad(part, ((0, groups * many - crowds), (0, length - part.shape[1])), constant_values=fill)

    others = [
        cut(part, depth * _columns(n), fill).reshape(groups, many, 1, depth, -1, 1)
        for part, fill in ((jnp.where(active, x, jnp.inf), jnp.inf), (y, 0))
    ]
    own = [
        cut(part, turns * few * LANES, 0).reshape(groups, many, turns, few, 1, 1, LANES).swapaxes(1, 2)
        for part in (jnp.take_along_axis(x, rows, 1), jnp.take_along_axis(y, rows, 1), rows)
    ]
    take = lambda i: [part[i // turns] for part in others] + [part[i // turns, i % turns] for part in own]
    # What a turn needs is cut out the turn before: a kernel that cuts is not vectorized.
    _, keys = jax.lax.scan(lambda now, i: (take(i + 1), _keys(*now, n=n, k=k)), take(0), jnp.arange(groups * turns))
    keys = keys.reshape(groups, turns, k, many, few * LANES)
    return jnp.transpose(keys, (0, 3, 1, 4, 2)).reshape(groups * many, turns * few * LANES, k)[:crowds, :m]


def _keys(its_x: Array, its_y: Array, own_x: Array, own_y: Array, mine: Array, n: int, k: int) -> Array:
    """Return keys i32[k, E, T, LANES] for others f32[E, 1, depth, columns, 1] and own [E, T, 1, 1, LANES]."""
    depth, columns = its_x.shape[2:4]
    number = np.arange(depth * columns, dtype=np.int32).reshape(depth, columns, 1)
    wide, start = lambda part: part[:, :, None], jnp.full((*mine.shape[:2], LANES), -1, jnp.int32)

    def distances() -> Array:
        """Return the bits of squared distances i32[E, T, depth, columns, LANES]."""
        square = (its_x - own_x) ** 2 + (its_y - own_y) ** 2
        return jax.lax.bitcast_convert_type(jnp.where(mine == number, jnp.inf, square), jnp.int32)

    def least(of: Callable[[int], Array]) -> Array:
        """Return the smallest of all agents' values, from [E, T, columns, LANES] for each depth."""
        column = reduce(jnp.minimum, map(of, range(depth)))
        return reduce(jnp.minimum, (column[:, :, i] for i in range(columns)))

    key = distances() & ~_low(n) | number

    def follow(last: Array, _: None) -> tuple[Array, Array]:
        ahead = lambda i: jax.lax.bitcast_convert_type(key[:, :, i] - wide(last + 1), jnp.uint32)
        return jax.lax.bitcast_convert_type(least(ahead), jnp.int32) + last + 1, last

    # The last one comes out, not the next: what comes out is computed for itself.
    beyond, keys = jax.lax.scan(follow, start, length=k + 1)
    keys = jnp.concatenate([keys[1:], beyond[None]])

    def settle() -> Array:
        """Sort the agents found; if they are not enough, search by distance."""
        square, number = distances(), keys & _low(n)
        flat = square.reshape(*square.shape[:2], -1, LANES)
        near = jnp.moveaxis(jnp.take_along_axis(flat, jnp.moveaxis(number, 0, 2), 2, mode="promise_in_bounds"), 2, 0)
        nobody = jnp.zeros((1, *start.shape), jnp.bool_)
        swap = near[1:] < near[:-1]
        up, down = jnp.concatenate([swap, nobody]), jnp.concatenate([nobody, swap])
        order = lambda part: jnp.where(up, jnp.roll(part, -1, 0), jnp.where(down, jnp.roll(part, 1, 0), part))
        near, number = order(near), order(number)
        beaten = least(lambda i: jnp.where(key[:, :, i] > wide(beyond), square[:, :, i], FAR)) < near[k - 1]
        good = ~jnp.any(near[1:] < near[:-1]) & ~jnp.any(beaten)

        def by_distance() -> tuple[Array, Array]:
            value, number = jax.lax.top_k(-jnp.swapaxes(flat, 2, 3), k)
            return -jnp.moveaxis(value, 3, 0), jnp.moveaxis(number, 3, 0).astype(jnp.int32)

        near, number = jax.lax.cond(good, lambda: (near[:k], number[:k]), by_distance)
        return jnp.where(near < FAR, 0, FAR) | number

    alike = ((keys[1:] ^ keys[:-1]) <= _low(n)) & (keys[:-1] < FAR)
    return jax.lax.cond(jnp.any(alike), settle, lambda: keys[:k])


def _columns(n: int) -> int:
    """Return the number of columns in which n agents are compared: XLA separates two loops if the second is long."""
    return 1 if n <= DEPTH else max(16, -(-n // DEPTH))


def _low(n: int) -> np.int32:
    """Return the bits of a key that hold the agent's number."""
    most = -(-n // _columns(n)) * _columns(n) - 1
    return np.int32((1 << most.bit_length()) - 1)


def by_top_k(x: Array, y: Array, active: Array, rows: Array | None, k: int, chunk: int) -> tuple[Array, Array]:
    """Compute `nearest` for `chunk` agents at a time."""
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


def by_minima(x: Array, y: Array, active: Array, rows: Array | None, k: int, chunk: int) -> tuple[Array, Array]:
    """Compute `nearest` by k reductions over all pairs; `chunk` is ignored, because pairs are not stored.

    Each finds the smallest pair of distance and number that is larger than the last. One loop body computes all of
    them, so that a distance has the same bits each time.
    """
    n = x.shape[0]
    number = jnp.arange(n, dtype=jnp.int32)
    rows = number if rows is None else rows
    own_x, own_y = x[rows, None], y[rows, None]

    def smaller(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        first = (a[0] < b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    def follow(last: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        (distance, at), mine_x, mine_y = jax.lax.optimization_barrier((last, own_x, own_y))  # else pairs are stored
        square = (x[None, :] - mine_x) ** 2 + (y[None, :] - mine_y) ** 2
        ahead = (square > distance[:, None]) | ((square == distance[:, None]) & (number[None, :] > at[:, None]))
        other = active[None, :] & (number[None, :] != rows[:, None])
        pair = jnp.where(ahead & other, square, jnp.inf), jnp.broadcast_to(number, square.shape)
        found = jax.lax.reduce(pair, (jnp.float32(jnp.inf), jnp.int32(n)), smaller, (1,))
        return found, found

    start = jnp.full(rows.shape, -1.0, jnp.float32), jnp.full(rows.shape, -1, jnp.int32)
    _, (distance, index) = jax.lax.scan(follow, start, length=k)
    return jnp.minimum(index, n - 1).T, jnp.isfinite(distance).T
