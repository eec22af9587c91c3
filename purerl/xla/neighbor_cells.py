"""The nearest neighbors of every agent in a large crowd, found among the agents of nearby cells.

Reason: all pairs grow with the square of the agents. A crowd is cut into rows of equal numbers by y, and each row is
ordered by x. A window has the same number of agents of three rows, so its size is fixed wherever the crowd is dense.
Neighbors in a window are exact if they are nearer than everyone outside of it can be; the few agents for which that is
not known are compared with all. Measurement and switch: as in `neighbors`.
"""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.types import Array

FAR = np.float32(np.inf).view(np.int32)
LANES = 8  # agents that share a window: a tile
ROWS = 3  # rows of a window
WIDEST = 40  # agents of each row of a window
PAIRS = 1 << 16  # distances that are kept at a time
SLACK = 1e-6  # relative tolerance for a coordinate and for a square, larger than rounding errors


class Grid(NamedTuple):
    """A crowd in R rows of m slots; inactive agents come last, at infinity."""

    number: Array  # i32[R, m], of each agent; n and more: nobody
    x: Array  # f32[R, m]
    y: Array  # f32[R, m]
    corner: Array  # f32[2], the least x and y
    span: Array  # f32[], the larger side
    left: Array  # f32[R, m], from here on no x - corner[0] in the row is less
    right: Array  # f32[R, m], up to here none is greater
    below: Array  # f32[R], from this row on no y - corner[1] is less
    above: Array  # f32[R], up to this row none is greater


def width(k: int) -> int:
    """Return the number of agents of each row in a window, for k neighbors."""
    return max(3 * LANES, -(-4 * k // LANES) * LANES)


def fits(n: int, k: int) -> bool:
    """Return whether windows are small for n agents with k neighbors."""
    return width(k) <= WIDEST and 4 * ROWS * width(k) <= n


def search(
    x: Array, y: Array, active: Array, k: int, among_all: Callable[[Array], tuple[Array, Array]]
) -> tuple[Array, Array]:
    """Return (numbers i32[n, k], found bool[n, k]) of the nearest neighbors; see `neighbors.nearest`.

    Args:
      x, y: f32[n].
      active: bool[n].
      k: how many.
      among_all: i32[LANES] -> (numbers, found) [LANES, k] of these agents, by a search among all.
    """
    grid, n = arrange(x, y, active, width(k)), x.shape[0]
    own = grid.number.reshape(-1, LANES)
    keys, place, margin = in_windows(grid, k)
    at = (keys[:, :k] & low_bits(place)).reshape(len(own), -1)
    number = jnp.take_along_axis(grid.number.reshape(-1)[place], at, 1).reshape(len(own), k, LANES)
    found = jnp.where(keys[:, :k] < FAR, number, n)  # n: nobody
    unsure = jnp.any(jnp.isfinite(grid.x).reshape(own.shape) & ~sure(keys, margin, low_bits(place)), axis=1)
    order = jnp.argsort(~unsure)

    def mend(i: Array, found: Array) -> Array:
        number, there = among_all(jnp.minimum(own[order[i]], n - 1))
        return found.at[order[i]].set(jnp.where(there, number, n).T)

    found = jax.lax.fori_loop(0, jnp.sum(unsure, dtype=jnp.int32), mend, found)
    at = jnp.zeros(n, jnp.int32).at[own.reshape(-1)].set(np.arange(own.size, dtype=np.int32), mode="drop")
    number = jnp.swapaxes(found, 1, 2).reshape(-1, k)[at]
    return jnp.minimum(number, n - 1), (number < n) & active[:, None]


def arrange(x: Array, y: Array, active: Array, wide: int) -> Grid:
    """Return a crowd in rows whose windows of `wide` agents reach farther along x, where counts vary, than along y."""
    n = x.shape[0]
    reach = (wide - LANES) // 2  # places beyond a tile in its middle
    count = max(ROWS, round(1.4 * float(np.sqrt(n / reach))))
    shape = (count, max(wide, -(-n // (count * LANES)) * LANES))
    size = shape[0] * shape[1]
    low = np.int32((1 << (size - 1).bit_length()) - 1)
    fill = lambda part: jnp.pad(part, (0, size - n))
    x, y, active = fill(x), fill(y), fill(active)
    corner = jnp.stack([jnp.min(jnp.where(active, part, jnp.inf)) for part in (x, y)])
    most = jnp.stack([jnp.max(jnp.where(active, part, -jnp.inf)) for part in (x, y)])

    def key(part: Array, active: Array, number: Array) -> Array:
        """Return the bits of a coordinate, the lowest replaced by the agent's number, so that one array is sorted."""
        bits = jax.lax.bitcast_convert_type(jnp.where(active, part, jnp.inf), jnp.int32)
        return bits & ~low | number

    as_float = lambda bits: jax.lax.bitcast_convert_type(bits, jnp.float32)
    by_y = jnp.sort(key(y - corner[1], active, jnp.arange(size, dtype=jnp.int32))).reshape(shape)
    number = by_y & low
    by_x = jnp.sort(key((x - corner[0])[number], active[number], number), axis=1)
    number = by_x & low
    x, y = (jnp.where(active, part, jnp.inf)[number] for part in (x, y))
    return Grid(
        number=number,
        x=x,
        y=y,
        corner=corner,
        span=jnp.max(most - corner),
        left=as_float(by_x & ~low),
        right=as_float(jnp.where(by_x < FAR, by_x | low, FAR)),
        below=as_float(by_y[:, 0] & ~low),
        above=as_float(jnp.where(by_y[:, -1] < FAR, by_y[:, -1] | low, FAR)),
    )


def in_windows(grid: Grid, k: int) -> tuple[Array, Array, Array]:
    """Return the nearest agents in each tile's window, for T tiles with windows of M agents.

    Returns:
      (keys i32[T, k + 1, LANES] of distance and place in the window; places i32[T, M] in the grid; and f32[T, LANES],
      the least distance along an axis to an active agent outside the window).
    """
    (count, length), wide = grid.x.shape, width(k)
    first = np.clip(np.arange(count) - 1, 0, count - ROWS)
    rows = first[:, None] + np.arange(ROWS)  # [R, 3]
    tiled = grid.x.reshape(count, -1, LANES)
    middle = tiled[:, :, LANES // 2]
    before = jnp.sum(grid.x[rows][:, None] < middle[:, :, None, None], axis=3, dtype=jnp.int32)
    begin = jnp.clip(before - wide // 2, 0, length - wide)  # [R, tiles of a row, 3]
    start = (rows[:, None] * length + begin).reshape(-1, ROWS, 1)
    place = (start + np.arange(wide)).reshape(-1, ROWS * wide)
    own = np.arange(count * length).reshape(-1, 1, LANES)
    ahead = own - start
    mine = jnp.where((ahead >= 0) & (ahead < wide), ahead + wide * np.arange(ROWS)[:, None], -1).max(axis=1)
    flat_x, flat_y, own = grid.x.reshape(-1), grid.y.reshape(-1), own[:, 0]
    keys = _in_parts((flat_x[place], flat_y[place], flat_x[own], flat_y[own], mine), k)

    edge = lambda part, fill: jnp.pad(part, ((0, 0), (1, 1)), constant_values=fill)
    # One place more on both sides: what is left of place i is at i, what is right of place i - 1 at i + 1.
    right, left = edge(grid.right, -np.inf), edge(grid.left, np.inf)
    right = jnp.max(right[rows[:, None], begin], axis=2)[:, :, None]
    left = jnp.min(left[rows[:, None], begin + wide + 1], axis=2)[:, :, None]
    below = jnp.concatenate([jnp.full(1, -jnp.inf), grid.above])[first][:, None, None]
    above = jnp.concatenate([grid.below, jnp.full(1, jnp.inf)])[first + ROWS][:, None, None]
    at_x, at_y = tiled - grid.corner[0], grid.y.reshape(tiled.shape) - grid.corner[1]
    margin = reduce(jnp.minimum, (at_x - right, left - at_x, at_y - below, above - at_y))
    return keys, jnp.asarray(place), margin.reshape(-1, LANES) - SLACK * grid.span


def sure(keys: Array, margin: Array, low: np.int32) -> Array:
    """Return the tiles whose first k of k + 1 keys are certainly the nearest of all, in order, bool[T, LANES]."""
    bound = jax.lax.bitcast_convert_type(keys[:, -2] | low, jnp.float32)  # not below the distance
    near = bound < jnp.square(jnp.maximum(margin, 0.0)) * (1.0 - SLACK)
    alike = jnp.any(((keys[:, 1:] ^ keys[:, :-1]) <= low) & (keys[:, :-1] < FAR), axis=1)
    return (near | (margin == jnp.inf)) & ~alike


def low_bits(place: Array) -> np.int32:
    """Return the bits of a key that hold the position in a window."""
    return np.int32((1 << (place.shape[1] - 1).bit_length()) - 1)


def _in_parts(windows: tuple[Array, ...], k: int) -> Array:
    """Return keys i32[T, k + 1, LANES], for as many tiles at a time as fit in the cache."""
    tiles, size = windows[0].shape
    parts = -(-tiles * size * LANES // PAIRS)
    each = -(-tiles // parts)
    cut = [jnp.pad(part, ((0, parts * each - tiles), (0, 0))).reshape(parts, each, -1) for part in windows]
    take = lambda i: [part[i] for part in cut]
    # What a turn needs is cut out the turn before: a kernel that cuts is not vectorized.
    _, keys = jax.lax.scan(lambda now, i: (take(i + 1), _keys(*now, k=k)), take(0), jnp.arange(parts))
    return jnp.moveaxis(keys, 1, 2).reshape(parts * each, k + 1, LANES)[:tiles]


def _keys(its_x: Array, its_y: Array, own_x: Array, own_y: Array, mine: Array, k: int) -> Array:
    """Return the k + 1 smallest keys i32[k + 1, T, LANES] of others [T, M] for own [T, LANES]; see `neighbors`."""
    size, low = its_x.shape[1], low_bits(its_x)
    square = (its_x[:, :, None] - own_x[:, None]) ** 2 + (its_y[:, :, None] - own_y[:, None]) ** 2
    place = np.arange(size, dtype=np.int32)[:, None]
    square = jnp.where(mine[:, None] == place, jnp.inf, square)
    key = jax.lax.bitcast_convert_type(square, jnp.int32) & ~low | place

    def follow(last: Array, _: None) -> tuple[Array, Array]:
        ahead = lambda i: jax.lax.bitcast_convert_type(key[:, i] - (last + 1), jnp.uint32)
        return jax.lax.bitcast_convert_type(reduce(jnp.minimum, map(ahead, range(size))), jnp.int32) + last + 1, last

    # The last one comes out, not the next: what comes out is computed for itself.
    last, keys = jax.lax.scan(follow, jnp.full_like(mine, -1), length=k + 1)
    return jnp.concatenate([keys[1:], last[None]])
