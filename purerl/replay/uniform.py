"""Uniform replay: steps stored in arrays and drawn at random, as pure functions.

Each environment has a ring of rows. A step takes one row and holds its observation once: its successor is the row that
follows. Where a time limit cut an episode off, one more row holds the true final observation, and no transition starts
there. The successor of a terminated step is never looked at, as its value is 0. Of stacked frames a row holds the
newest (see `purerl.replay.frames`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.devices import memory
from purerl.errors import InputError
from purerl.replay import frames
from purerl.replay.sizes import check_memory, check_sizes
from purerl.types import Array, EnvironmentSpec, Key, PyTree, Rollout

# A row's flag: nothing special, or how the episode ended there, or that no transition starts there.
GOING, TERMINATED, TRUNCATED, NO_START = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3)
TRIES = 4  # draws per sample; the first that starts a transition counts


class Storage(NamedTuple):
    """R rows of B environments. Index p, i32, means row p // B of environment p % B."""

    observation: PyTree  # [R, B, ...], in the environment's own dtypes; the newest frame of a stack
    action: PyTree  # [R, B, ...]
    reward: Array  # f32[R, B]
    flag: Array  # u8[R, B]
    head: Array  # i32[B], the row that the next step goes to; until then it holds the last step's successor
    filled: Array  # i32[], rows that hold something in any environment
    age: PyTree  # u8[R, B], steps since the episode began, at most as many as a stack goes back; () without stacks
    running: PyTree  # i32[B], likewise, of the step to come


class Between(NamedTuple):
    """What lies between the first step of N transitions and their last."""

    observation: PyTree  # [n - 1, N, ...], before each step after the first
    discount: Array  # f32[n - 1, N], discount^k of the k-th of them; 0 where the episode ended before


class Transitions(NamedTuple):
    """N drawn transitions, each of up to n steps."""

    observation: PyTree  # [N, ...]
    action: PyTree  # [N, ...]
    reward: Array  # f32[N], the discounted sum of the rewards of its steps
    discount: Array  # f32[N], of the value of `next_observation`: discount^steps, 0 where the task ended
    next_observation: PyTree  # [N, ...], the true successor of its last step
    weight: Array  # f32[N], of its loss; 0 for a draw that starts no transition
    start: Array  # i32[N], the index of its first step
    between: Between | None = None  # where asked for, of more than one step


class Replay(NamedTuple):
    """A replay as four pure functions; a user's own may replace it."""

    init: Callable[[], Any]  # () -> state, empty
    add: Callable[[Any, Rollout], Any]  # (state, rollout[T, B]) -> state
    sample: Callable[[Any, Key], Any]  # (state, key) -> `Transitions`, or what the algorithm learns from, with `weight`
    update: Callable[[Any, Any, Array], Any]  # (state, what was drawn, its |TD error| f32[N]) -> state
    # in `update` a weight of 0 says that a draw does not count


def num_rows(capacity: int, num_envs: int, depth: int = 1) -> int:
    """Return the rows of one environment's ring.

    They are its share of `capacity`, the head, which is always being filled, and what the oldest stack goes back.
    """
    return -(-capacity // num_envs) + depth


def nbytes(spec: EnvironmentSpec, capacity: int, num_envs: int) -> int:
    """Return how many bytes a replay of `capacity` steps takes."""
    return memory.nbytes(jax.eval_shape(lambda: create(spec, capacity, num_envs)))


def create(spec: EnvironmentSpec, capacity: int, num_envs: int) -> Storage:
    """Return an empty storage for `capacity` steps of `num_envs` environments together."""
    depth = frames.deepest(frames.depths(spec.observation_space))
    shape = (num_rows(capacity, num_envs, depth), num_envs)
    zeros = lambda struct: jax.tree.map(lambda leaf: jnp.zeros(shape + leaf.shape, leaf.dtype), struct)
    return Storage(
        observation=zeros(frames.stored(spec.observation_space)),
        action=zeros(spec.action_space.struct),
        reward=jnp.zeros(shape),
        flag=jnp.full(shape, NO_START),
        head=jnp.zeros(num_envs, jnp.int32),
        filled=jnp.int32(0),
        age=jnp.zeros(shape, jnp.uint8) if depth > 1 else (),
        running=jnp.zeros(num_envs, jnp.int32) if depth > 1 else (),
    )


def add(state: Storage, rollout: Rollout, depth: PyTree = None) -> Storage:
    """Write a rollout over the oldest rows; `depth` says which observations are stacks, see `frames.depths`.

    Returns:
      The storage, of which a row per step that counts and one more per truncation are new. Under jit it is changed in
      place if the old one is donated or carried by a scan.

    Raises:
      InputError: if the rollout, all truncated, would not fit.
    """
    return write(state, rollout, depth)[0]


def write(state: Storage, rollout: Rollout, depth: PyTree = None) -> tuple[Storage, Array, Array]:
    """Write a rollout as `add` does, and return the indices, too.

    Returns:
      (storage, the indices of the steps i32[T, B], those where no step starts any more i32[T or more, B]: of successors
      written apart, R x B or more where there is none).
    """
    length, num_envs = rollout.reward.shape
    rows = state.flag.shape[0]
    if rows < 2 * length + 1:
        raise InputError(
            f"the replay holds {(rows - 1) * num_envs} steps; with rollouts of {length} x {num_envs} steps it must "
            f"hold at least {2 * length * num_envs}"
        )
    state = state if rollout.mask is None else _cut_off(state, rollout.truncated[0] & ~rollout.mask[0])
    counts = jnp.ones_like(rollout.truncated) if rollout.mask is None else rollout.mask
    final = rollout.time_up & counts
    written = counts.astype(jnp.int32) + final.astype(jnp.int32)
    row = state.head + jnp.cumsum(written, axis=0) - written
    added = jnp.sum(written, axis=0)
    filled = jnp.minimum(jnp.maximum(state.filled, jnp.max(state.head + added) + 1), rows)
    row = jnp.where(row >= rows, row - rows, row)
    following = jnp.where(row + 1 >= rows, row + 1 - rows, row + 1)
    # The last step's successor goes to the head, so that the step can be drawn at once.
    newest = (jnp.arange(length) == length - 1)[:, None]
    newest = newest if rollout.cut is None else newest | rollout.cut
    apart = jnp.where(final | newest & counts, following, rows)
    row = jnp.where(counts, row, rows)
    env = jnp.arange(num_envs, dtype=jnp.int32)

    def put(storage: Array, at: Array, values: Array) -> Array:
        return storage.at[at, env].set(values, mode="drop")

    stored = lambda tree: tree if depth is None else frames.newest(depth, tree)
    observation = jax.tree.map(lambda xs, x: put(xs, row, x), state.observation, stored(rollout.observation))
    observation = jax.tree.map(lambda xs, x: put(xs, apart, x), observation, stored(rollout.next_observation))
    flag = jnp.where(rollout.terminated, TERMINATED, jnp.where(rollout.time_up, TRUNCATED, GOING))
    head = state.head + added
    head = jnp.where(head >= rows, head - rows, head)
    age, running, void = state.age, state.running, apart
    if depth is not None:
        back = frames.deepest(depth) - 1
        age_now, running = frames.ages(running, rollout.terminated | rollout.time_up, counts)
        clipped = lambda steps: jnp.minimum(steps, back).astype(jnp.uint8)
        age, running = put(put(age, row, clipped(age_now)), apart, clipped(age_now + 1)), jnp.minimum(running, back)
        oldest = head + jnp.any(apart == head, axis=0).astype(jnp.int32)  # the head may hold the newest successor
        void = jnp.concatenate([apart, _cut(age, oldest, back)])
    state = Storage(
        observation=observation,
        action=jax.tree.map(lambda xs, x: put(xs, row, x), state.action, rollout.action),
        reward=put(state.reward, row, rollout.reward),
        flag=put(put(state.flag, row, flag), void, jnp.full(void.shape, NO_START)),
        head=head,
        filled=filled,
        age=age,
        running=running,
    )
    return state, row * num_envs + env, void * num_envs + env


def _cut_off(state: Storage, where: Array) -> Storage:
    """Truncate the newest steps of environments bool[B] whose episodes go on: their successors keep the head's rows."""
    rows, env = state.flag.shape[0], jnp.arange(where.shape[0], dtype=jnp.int32)
    newest = jnp.where(state.head == 0, rows - 1, state.head - 1)
    flag = state.flag[newest, env]
    cut = where & (flag == GOING)
    head = state.head + cut.astype(jnp.int32)
    return state._replace(
        flag=state.flag.at[newest, env].set(jnp.where(cut, TRUNCATED, flag)),
        head=jnp.where(head >= rows, 0, head),
        filled=jnp.minimum(jnp.maximum(state.filled, jnp.max(head) + 1), rows),
        running=jax.tree.map(lambda steps: jnp.where(cut, 0, steps), state.running),
    )


def _cut(age: Array, oldest: Array, back: int) -> Array:
    """Return the rows whose stacks go back beyond the oldest row, i32[back, B]; R where a stack is whole."""
    rows = age.shape[0]
    after = jnp.arange(back, dtype=jnp.int32)[:, None]
    row = (oldest + after) % rows
    return jnp.where(jnp.take_along_axis(age, row, axis=0).astype(jnp.int32) > after, row, rows)


def draw(state: Storage, key: Key, batch_size: int) -> Array:
    """Draw indices uniformly, with replacement, in time and memory of O(batch_size).

    A draw that hits a row where no transition starts is repeated, at most `TRIES` times in all; the last draw stands.

    Returns:
      i32[batch_size].
    """
    span = (state.filled * state.flag.shape[1]).astype(jnp.uint32)
    words = jax.random.bits(key, (TRIES, batch_size), jnp.uint32)
    index = scaled(words, span).astype(jnp.int32)
    attempt = jnp.arange(TRIES, dtype=jnp.int32)[:, None]
    rank = jnp.where(_at(state.flag, index) != NO_START, attempt, 2 * TRIES - attempt)
    # A reduction, as it is computed once: selections would be made anew, words and all, for every array that is read
    # at these indices, nine times as slow on a CPU.
    return jax.lax.reduce((rank, index), (np.int32(2 * TRIES), np.int32(0)), _lower, (0,))[1]


def _lower(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the (rank, index) of lower rank, elementwise."""
    take = one[0] <= other[0]
    return jnp.where(take, one[0], other[0]), jnp.where(take, one[1], other[1])


def gather(
    state: Storage,
    index: Array,
    weight: Array | float,
    discount: Array | float,
    n_step: int = 1,
    depth: PyTree = None,
    between: bool = False,
) -> Transitions:
    r"""Assemble the transitions that start at given indices.

        reward = sum_{k < m} discount^k r_{t+k};  discount = discount^m (1 - terminated_{t+m-1})

    with m = n_step, or less where the episode ended before; the successor is that of the last of the m steps.

    Args:
      state: the storage.
      index: i32[N], the starts.
      weight: f32[N] or a scalar; a transition's is 0 where none starts, or its last steps are still to come.
      discount: per step.
      n_step: the most steps of a transition.
      depth: which observations are stacks, see `frames.depths`; None: none is.
      between: also what was observed between the first step and the last.
    """
    rows, num_envs = state.flag.shape
    step = lambda at: jnp.where(at >= (rows - 1) * num_envs, at - (rows - 1) * num_envs, at + num_envs)
    last, flag, reward = index, _at(state.flag, index), _at(state.reward, index)
    factor, after = jnp.full(index.shape, discount, jnp.float32), []
    for _ in range(n_step - 1):
        going = flag == GOING
        last = jnp.where(going, step(last), last)
        after.append((last, jnp.where(going, factor, 0.0)))
        flag = _at(state.flag, last)
        reward = reward + jnp.where(going, factor * _at(state.reward, last), 0.0)
        factor = jnp.where(going, factor * discount, factor)
    take = lambda tree, at: jax.tree.map(lambda xs: _at(xs, at), tree)

    def seen(at: Array) -> PyTree:
        if depth is None:
            return take(state.observation, at)
        found = frames.assemble(depth, state.observation, state.age, at.reshape(-1), num_envs)
        return jax.tree.map(lambda x: x.reshape(*at.shape, *x.shape[1:]), found)

    inner = None
    if between and after:
        at, discounts = (jnp.stack(parts) for parts in zip(*after, strict=True))
        inner = Between(seen(at), discounts)
    return Transitions(
        observation=seen(index),
        action=take(state.action, index),
        reward=reward,
        discount=jnp.where(flag == TERMINATED, 0.0, factor),
        next_observation=seen(step(last)),
        weight=jnp.where(flag == NO_START, 0.0, weight),
        start=index,
        between=inner,
    )


def _at(storage: Array, index: Array) -> Array:
    """Return the rows at indices: [R, B, ...] -> [..., ...]."""
    return jnp.take(storage.reshape(-1, *storage.shape[2:]), index, axis=0, mode="clip")


def uniform(
    spec: EnvironmentSpec,
    capacity: int,
    num_envs: int,
    batch_size: int,
    discount: Array | float = 0.99,
    n_step: int = 1,
    between: bool = False,
) -> Replay:
    """Return a replay that draws all its steps with equal probability.

    Args:
      spec: the environment's spaces.
      capacity: steps of all environments together.
      num_envs: B.
      batch_size: transitions per draw.
      discount: per step.
      n_step: steps per transition.
      between: also draw what was observed between the first step of a transition and its last.

    Raises:
      InputError: if it does not fit in memory or a batch or n-step transition does not fit in it.
    """
    check(spec, capacity, num_envs, batch_size, n_step)
    depth = stacks(spec)

    def sample(state: Storage, key: Key) -> Transitions:
        return gather(state, draw(state, key, batch_size), 1.0, discount, n_step, depth, between)

    return Replay(
        init=lambda: create(spec, capacity, num_envs),
        add=lambda state, rollout: add(state, rollout, depth),
        sample=sample,
        update=lambda state, transitions, td_error: state,
    )


def stacks(spec: EnvironmentSpec) -> PyTree:
    """Return `frames.depths` of the observations, or None where nothing is stacked."""
    depth = frames.depths(spec.observation_space)
    return depth if frames.deepest(depth) > 1 else None


def check(
    spec: EnvironmentSpec, capacity: int, num_envs: int, batch_size: int, n_step: int, needed: int | None = None
) -> None:
    """Check the sizes of a replay against one another and the memory there is; `needed` bytes, if not `nbytes`.

    Raises:
      InputError: naming the size and what is allowed.
    """
    check_sizes(capacity, num_envs, batch_size, n_step)
    check_memory(needed or nbytes(spec, capacity, num_envs), capacity)


def scaled(words: Array, n: Array) -> Array:
    """Return floor(words n / 2^32), uint32: uniform words become uniform integers below n, without a division."""
    low, half = np.uint32(0xFFFF), np.uint32(16)
    a, b, c, d = words >> half, words & low, n >> half, n & low
    middle = a * d + ((b * d) >> half)
    return a * c + (middle >> half) + ((b * c + (middle & low)) >> half)
