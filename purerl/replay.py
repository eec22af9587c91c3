"""Replay: steps kept in arrays and drawn from at random, as pure functions.

Each environment has a ring of rows. A step takes one row and holds its observation once: its successor is the row that
follows. Where a time limit cut an episode off, one more row holds the true final observation, and no transition starts
there. The successor of a terminated step is never looked at, as its value is 0.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError
from purerl.types import Array, EnvironmentSpec, Key, PyTree, Rollout

# A row's flag: nothing special, or how the episode ended there, or that no transition starts there.
GOING, TERMINATED, TRUNCATED, NO_START = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3)
TRIES = 4  # draws per sample, of which the first that starts a transition is taken


class Storage(NamedTuple):
    """R rows of B environments. Place p, i32, means row p // B of environment p % B."""

    observation: PyTree  # [R, B, ...], in the environment's own dtypes
    action: PyTree  # [R, B, ...]
    reward: Array  # f32[R, B]
    flag: Array  # u8[R, B]
    head: Array  # i32[B], the row that the next step goes to; until then it holds the last step's successor
    filled: Array  # i32[], rows that hold something in any environment


class Transitions(NamedTuple):
    """N drawn transitions, each of up to n steps."""

    observation: PyTree  # [N, ...]
    action: PyTree  # [N, ...]
    reward: Array  # f32[N], the discounted sum of the rewards of its steps
    discount: Array  # f32[N], of the value of `next_observation`: discount^steps, 0 where the task ended
    next_observation: PyTree  # [N, ...], the true successor of its last step
    weight: Array  # f32[N], of its loss; 0 for a draw that found nothing
    place: Array  # i32[N], where it starts


class Replay(NamedTuple):
    """What an algorithm needs of a replay; one of your own with these four functions can take its place."""

    init: Callable[[], Any]  # () -> state, empty
    add: Callable[[Any, Rollout], Any]  # (state, rollout[T, B]) -> state
    sample: Callable[[Any, Key], Any]  # (state, key) -> `Transitions`, or what the algorithm learns from
    update: Callable[[Any, Any, Array], Any]  # (state, what was drawn, its |TD error| f32[N]) -> state


def num_rows(capacity: int, num_envs: int) -> int:
    """Return the rows of one environment's ring: its share of `capacity` and the head, which is always being filled."""
    return -(-capacity // num_envs) + 1


def nbytes(spec: EnvironmentSpec, capacity: int, num_envs: int) -> int:
    """Return how many bytes a replay of `capacity` steps takes."""
    leaves = jax.tree.leaves((spec.observation_space.struct, spec.action_space.struct))
    step = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves) + 4 + 1  # with its reward and flags
    return num_rows(capacity, num_envs) * num_envs * step


def create(spec: EnvironmentSpec, capacity: int, num_envs: int) -> Storage:
    """Return an empty storage for `capacity` steps of `num_envs` environments together."""
    shape = (num_rows(capacity, num_envs), num_envs)
    zeros = lambda space: jax.tree.map(lambda leaf: jnp.zeros(shape + leaf.shape, leaf.dtype), space.struct)
    return Storage(
        zeros(spec.observation_space),
        zeros(spec.action_space),
        jnp.zeros(shape),
        jnp.full(shape, NO_START),
        jnp.zeros(num_envs, jnp.int32),
        jnp.int32(0),
    )


def add(state: Storage, rollout: Rollout) -> Storage:
    """Write a rollout over the oldest rows.

    Returns:
      The storage, of which a row per step that counts and one more per truncation are new. Under jit it is changed in
      place if the old one is donated or carried by a scan.

    Raises:
      InputError: if the rollout, all truncated, would not fit.
    """
    return write(state, rollout)[0]


def write(state: Storage, rollout: Rollout) -> tuple[Storage, Array, Array]:
    """As `add`, and tell where.

    Returns:
      (storage, the places of the steps i32[T, B], the places of the successors written apart from them i32[T, B]:
      R x B or more where there is none).
    """
    length, num_envs = rollout.reward.shape
    rows = state.flag.shape[0]
    if rows < 2 * length + 1:
        raise InputError(
            f"the replay holds {(rows - 1) * num_envs} steps; with rollouts of {length} x {num_envs} steps it must "
            f"hold at least {2 * length * num_envs}"
        )
    counts = jnp.ones_like(rollout.truncated) if rollout.mask is None else rollout.mask
    final = rollout.truncated & counts
    taken = counts.astype(jnp.int32) + final.astype(jnp.int32)
    row = state.head + jnp.cumsum(taken, axis=0) - taken
    added = jnp.sum(taken, axis=0)
    filled = jnp.minimum(jnp.maximum(state.filled, jnp.max(state.head + added) + 1), rows)
    row = jnp.where(row >= rows, row - rows, row)
    following = jnp.where(row + 1 >= rows, row + 1 - rows, row + 1)
    # The last step's successor goes to the head, so that the step can be drawn at once.
    newest = (jnp.arange(length) == length - 1)[:, None]
    apart = jnp.where(final | newest & counts, following, rows)
    row = jnp.where(counts, row, rows)
    env = jnp.arange(num_envs, dtype=jnp.int32)

    def put(storage: Array, at: Array, values: Array) -> Array:
        return storage.at[at, env].set(values, mode="drop")

    observation = jax.tree.map(lambda xs, x: put(xs, row, x), state.observation, rollout.observation)
    observation = jax.tree.map(lambda xs, x: put(xs, apart, x), observation, rollout.next_observation)
    flag = jnp.where(rollout.terminated, TERMINATED, jnp.where(rollout.truncated, TRUNCATED, GOING))
    head = state.head + added
    state = Storage(
        observation,
        jax.tree.map(lambda xs, x: put(xs, row, x), state.action, rollout.action),
        put(state.reward, row, rollout.reward),
        put(put(state.flag, row, flag), apart, jnp.full_like(flag, NO_START)),
        jnp.where(head >= rows, head - rows, head),
        filled,
    )
    return state, row * num_envs + env, apart * num_envs + env


def draw(state: Storage, key: Key, batch_size: int) -> Array:
    """Draw places uniformly, with replacement, in time and memory of O(batch_size).

    A draw that hits a row where no transition starts is repeated, at most `TRIES` times in all; the last draw stands.

    Returns:
      i32[batch_size].
    """
    span = (state.filled * state.flag.shape[1]).astype(jnp.uint32)
    words = jax.random.bits(key, (TRIES, batch_size), jnp.uint32)
    place = scaled(words, span).astype(jnp.int32)
    starts = _at(state.flag, place) != NO_START
    chosen, found = place[0], starts[0]
    for i in range(1, TRIES):
        chosen, found = jnp.where(found, chosen, place[i]), found | starts[i]
    return chosen


def gather(
    state: Storage, place: Array, weight: Array | float, discount: Array | float, n_step: int = 1
) -> Transitions:
    r"""Assemble the transitions that start at given places.

        reward = sum_{k < m} discount^k r_{t+k};  discount = discount^m (1 - terminated_{t+m-1})

    with m = n_step, or less where the episode ended before; the successor is that of the last of the m steps.

    Args:
      state: the storage.
      place: i32[N], the starts.
      weight: f32[N] or a scalar; the transitions' is 0 where none starts, or its last steps are still to come.
      discount: per step.
      n_step: the most steps of a transition.
    """
    rows, num_envs = state.flag.shape
    step = lambda at: jnp.where(at >= (rows - 1) * num_envs, at - (rows - 1) * num_envs, at + num_envs)
    last, flag, reward = place, _at(state.flag, place), _at(state.reward, place)
    factor = jnp.full(place.shape, discount, jnp.float32)
    for _ in range(n_step - 1):
        going = flag == GOING
        last = jnp.where(going, step(last), last)
        flag = _at(state.flag, last)
        reward = reward + jnp.where(going, factor * _at(state.reward, last), 0.0)
        factor = jnp.where(going, factor * discount, factor)
    take = lambda tree, at: jax.tree.map(lambda xs: _at(xs, at), tree)
    return Transitions(
        take(state.observation, place),
        take(state.action, place),
        reward,
        jnp.where(flag == TERMINATED, 0.0, factor),
        take(state.observation, step(last)),
        jnp.where(flag == NO_START, 0.0, weight),
        place,
    )


def _at(storage: Array, place: Array) -> Array:
    """Return what lies at places: [R, B, ...] -> [..., ...]."""
    return jnp.take(storage.reshape(-1, *storage.shape[2:]), place, axis=0, mode="clip")


def uniform(
    spec: EnvironmentSpec,
    capacity: int,
    num_envs: int,
    batch_size: int,
    discount: Array | float = 0.99,
    n_step: int = 1,
) -> Replay:
    """Return a replay that draws all its steps with equal probability.

    Args:
      spec: the environment's spaces.
      capacity: steps of all environments together.
      num_envs: B.
      batch_size: transitions per draw.
      discount: per step.
      n_step: steps per transition.

    Raises:
      InputError: if it does not fit in memory or a batch or n-step transition does not fit in it.
    """
    check(spec, capacity, num_envs, batch_size, n_step)

    def sample(state: Storage, key: Key) -> Transitions:
        return gather(state, draw(state, key, batch_size), 1.0, discount, n_step)

    return Replay(lambda: create(spec, capacity, num_envs), add, sample, lambda state, transitions, td_error: state)


def check(
    spec: EnvironmentSpec, capacity: int, num_envs: int, batch_size: int, n_step: int, needed: int | None = None
) -> None:
    """Hold the sizes of a replay to one another and to the memory there is; `needed` bytes, if not `nbytes`.

    Raises:
      InputError: naming the size and what is allowed.
    """
    if batch_size > capacity:
        raise InputError(f"batch_size {batch_size} is larger than the replay's capacity {capacity}")
    if n_step > capacity // num_envs:
        raise InputError(f"n_step {n_step} is larger than an environment's share of the replay, {capacity // num_envs}")
    check_memory(needed or nbytes(spec, capacity, num_envs), capacity)


def check_memory(needed: int, capacity: int) -> None:
    """Hold a replay of `capacity` steps and `needed` bytes to the memory there is.

    Raises:
      InputError: saying how many steps would fit.
    """
    there = memory()
    if there is not None and needed > there:
        raise InputError(
            f"a replay of {capacity} steps takes {needed / 1e6:,.0f} MB; there are {there / 1e6:,.0f} MB. "
            f"At most {int(capacity * there / needed):,} steps fit"
        )


def memory() -> int | None:
    """Return the bytes that the default device has, or None if it does not tell."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    if jax.default_backend() == "cpu" and hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def scaled(words: Array, n: Array) -> Array:
    """Return floor(words n / 2^32), uint32: uniform words become uniform integers below n, without a division."""
    low, half = np.uint32(0xFFFF), np.uint32(16)
    a, b, c, d = words >> half, words & low, n >> half, n & low
    middle = a * d + ((b * d) >> half)
    return a * c + (middle >> half) + ((b * c + (middle & low)) >> half)
