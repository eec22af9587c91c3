"""The storage of a replay: a ring of rows for each environment, in arrays.

A step takes one row and stores its observation once; its next observation is stored in the next row. At a truncation
one more row stores the final observation, and no transition starts there. The next observation of a terminated step is
never used, because its value is 0. If frames are stacked, a row stores the newest (see `purerl.replay.frames`).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.devices import memory
from purerl.errors import InputError
from purerl.replay import frames
from purerl.types import Array, EnvironmentSpec, PyTree, Rollout

# The flag of a row: the episode continues, how it ended there, or that no transition starts there.
GOING, TERMINATED, TRUNCATED, NO_START = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3)


class Storage(NamedTuple):
    """R rows of B environments. Index p, i32, means row p // B of environment p % B."""

    observation: PyTree  # [R, B, ...], in the environment's dtypes; the newest frame of a stack
    action: PyTree  # [R, B, ...]
    reward: Array  # f32[R, B]
    flag: Array  # u8[R, B]
    head: Array  # i32[B], the row of the next step; until then it holds the next observation of the last step
    filled: Array  # i32[], rows that are used in any environment
    age: PyTree  # u8[R, B], steps since the episode started, at most as many as a stack has; () without stacks
    running: PyTree  # i32[B], the age of the next step; () without stacks


def num_rows(capacity: int, num_envs: int, depth: int = 1) -> int:
    """Return the rows of one environment's ring.

    They are its part of `capacity`, the head, which is always being filled, and what the oldest stack looks back.
    """
    return -(-capacity // num_envs) + depth


def nbytes(spec: EnvironmentSpec, capacity: int, num_envs: int) -> int:
    """Return the size in bytes of a storage for `capacity` steps."""
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
    """Write a rollout over the oldest rows.

    Args:
      state: the storage. Under jit it is changed in place if it is donated or carried by a scan.
      rollout: [T, B].
      depth: which observations are stacks, see `frames.depths`; None: none.

    Returns:
      The storage with one new row per step that counts and one more per truncation.

    Raises:
      InputError: if the rollout would not fit if every step were truncated.
    """
    return write(state, rollout, depth)[0]


def write(state: Storage, rollout: Rollout, depth: PyTree = None) -> tuple[Storage, Array, Array]:
    """Write a rollout as `add` does, and also return the indices.

    Returns:
      (storage, the indices of the steps i32[T, B], indices at which no step starts any more i32[T or more, B]: those
      of final observations, or R x B or more if there is none).
    """
    _check_fits(state, rollout)
    num_envs = rollout.reward.shape[1]
    state = state if rollout.mask is None else _cut_off(state, rollout.truncated[0] & ~rollout.mask[0])
    counts = jnp.ones_like(rollout.truncated) if rollout.mask is None else rollout.mask
    row, apart, head, filled = _placed(state, rollout, counts)
    env = jnp.arange(num_envs, dtype=jnp.int32)

    def put(storage: Array, at: Array, values: Array) -> Array:
        return storage.at[at, env].set(values, mode="drop")

    stored = lambda tree: tree if depth is None else frames.newest(depth, tree)
    observation = jax.tree.map(lambda xs, x: put(xs, row, x), state.observation, stored(rollout.observation))
    observation = jax.tree.map(lambda xs, x: put(xs, apart, x), observation, stored(rollout.next_observation))
    flag = jnp.where(rollout.terminated, TERMINATED, jnp.where(rollout.time_up, TRUNCATED, GOING))
    age, running, void = state.age, state.running, apart
    if depth is not None:
        back = frames.deepest(depth) - 1
        age_now, running = frames.ages(running, rollout.terminated | rollout.time_up, counts)
        clipped = lambda steps: jnp.minimum(steps, back).astype(jnp.uint8)
        age, running = put(put(age, row, clipped(age_now)), apart, clipped(age_now + 1)), jnp.minimum(running, back)
        oldest = head + jnp.any(apart == head, axis=0).astype(jnp.int32)  # the head may hold the newest observation
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


def _check_fits(state: Storage, rollout: Rollout) -> None:
    length, num_envs = rollout.reward.shape
    rows = state.flag.shape[0]
    if rows < 2 * length + 1:
        raise InputError(
            f"the replay holds {(rows - 1) * num_envs} steps; with rollouts of {length} x {num_envs} steps it must "
            f"hold at least {2 * length * num_envs}"
        )


def _placed(state: Storage, rollout: Rollout, counts: Array) -> tuple[Array, Array, Array, Array]:
    """Return where a rollout goes: (rows of the steps, rows of next observations, the new head, rows in use).

    Args:
      state: the storage.
      rollout: [T, B].
      counts: bool[T, B], which steps count.

    Returns:
      i32[T, B], i32[T, B], i32[B] and i32[]. A row R means that nothing is written. A next observation has its own row
      at a truncation. That of the last step goes to the head, so that the step can be sampled at once.
    """
    length, rows = rollout.reward.shape[0], state.flag.shape[0]
    final = rollout.time_up & counts
    written = counts.astype(jnp.int32) + final.astype(jnp.int32)
    row = state.head + jnp.cumsum(written, axis=0) - written
    added = jnp.sum(written, axis=0)
    filled = jnp.minimum(jnp.maximum(state.filled, jnp.max(state.head + added) + 1), rows)
    row = jnp.where(row >= rows, row - rows, row)
    next_row = jnp.where(row + 1 >= rows, row + 1 - rows, row + 1)
    last = (jnp.arange(length) == length - 1)[:, None]
    last = last if rollout.cut is None else last | rollout.cut
    apart = jnp.where(final | last & counts, next_row, rows)
    head = state.head + added
    return jnp.where(counts, row, rows), apart, jnp.where(head >= rows, head - rows, head), filled


def _cut_off(state: Storage, where: Array) -> Storage:
    """Truncate the newest steps of environments bool[B] whose episodes continue.

    Their next observations keep the rows of the head.
    """
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
    """Return the rows whose stacks need frames beyond the oldest row, i32[back, B]; R if a stack is complete."""
    rows = age.shape[0]
    after = jnp.arange(back, dtype=jnp.int32)[:, None]
    row = (oldest + after) % rows
    return jnp.where(jnp.take_along_axis(age, row, axis=0).astype(jnp.int32) > after, row, rows)


def take_rows(storage: Array, index: Array) -> Array:
    """Return the rows at indices: [R, B, ...] -> [..., ...]."""
    return jnp.take(jax.lax.collapse(storage, 0, 2), index, axis=0, mode="clip")
