"""The storage of a sequence replay: chunks of T steps, each with the recurrent state before its first step.

Each rollout is stored as one chunk per environment. An observation is stored once; the next observation of a step is
stored with the next step. A chunk also holds the observations after its last step and after the first 1 + T // 8 of its
steps at which an episode was truncated; so none is missing if no episode is truncated within 8 steps. If frames are
stacked, a step stores the newest; the older frames of a chunk's first observation are stored with the chunk.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.devices import memory
from purerl.replay import frames
from purerl.replay.sum_tree import SumTree
from purerl.types import Array, EnvironmentSpec, PyTree, Rollout


class SequenceStorage(NamedTuple):
    """K chunks of T steps of B environments.

    Index p, i32, means the sequence that starts with chunk p // B of environment p % B.
    """

    observation: PyTree  # [K, B, T, ...], the newest frame of a stack
    before: PyTree  # [K, B, ...], the other frames of stacks in the chunk's first observation
    action: PyTree  # [K, B, T, ...]
    reward: Array  # f32[K, B, T]
    terminated: Array  # bool[K, B, T]
    truncated: Array  # bool[K, B, T]
    mask: Array  # bool[K, B, T], which steps count
    successor: PyTree  # [K, B, S + 1, ...], after the first S truncated steps of the chunk, and after its last
    carry: PyTree  # [K, B, ...], before the chunk's first step
    largest: Array  # f32[K, B], the largest |TD error| in the chunk when it was recorded
    total: Array  # f32[K, B], the sum of them
    known: Array  # f32[K, B], the number of known errors
    tree: SumTree  # priority^exponent of the sequences
    most: Array  # f32[], the largest priority^exponent so far: that of a sequence without a known error
    head: Array  # i32[], the chunk of the next rollout
    added: Array  # i32[], chunks so far


class SequenceSizes(NamedTuple):
    """The sizes of a sequence replay, in steps of one environment."""

    capacity: int  # steps of all environments together
    num_envs: int
    chunk: int  # T: steps between two stored recurrent states
    burn_in: int  # a multiple of T
    train: int  # a multiple of T

    @property
    def length(self) -> int:
        """Chunks in a sequence."""
        return (self.burn_in + self.train) // self.chunk

    @property
    def cuts(self) -> int:
        """Truncated steps of a chunk whose final observations are stored, S."""
        return 1 + self.chunk // 8

    @property
    def num_chunks(self) -> int:
        """Stored chunks of each environment."""
        return -(-self.capacity // (self.num_envs * self.chunk))


def nbytes(spec: EnvironmentSpec, sizes: SequenceSizes, carry: PyTree) -> int:
    """Return the size of the replay in bytes; `carry` is the recurrent state of B environments."""
    return memory.nbytes(jax.eval_shape(lambda: create(spec, sizes, carry)))


def create(spec: EnvironmentSpec, sizes: SequenceSizes, carry: PyTree) -> SequenceStorage:
    """Return an empty replay."""
    shape = (sizes.num_chunks, sizes.num_envs)
    zeros = lambda tree, *lead: jax.tree.map(lambda leaf: jnp.zeros((*shape, *lead, *leaf.shape), leaf.dtype), tree)
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), carry)
    number, flag = jax.ShapeDtypeStruct((), jnp.float32), jax.ShapeDtypeStruct((), jnp.bool_)
    older = jax.eval_shape(
        lambda x: frames.older(frames.depths(spec.observation_space), x), spec.observation_space.struct
    )
    return SequenceStorage(
        observation=zeros(frames.stored(spec.observation_space), sizes.chunk),
        before=zeros(older),
        action=zeros(spec.action_space.struct, sizes.chunk),
        reward=zeros(number, sizes.chunk),
        terminated=zeros(flag, sizes.chunk),
        truncated=zeros(flag, sizes.chunk),
        mask=zeros(flag, sizes.chunk),
        successor=zeros(frames.stored(spec.observation_space), sizes.cuts + 1),
        carry=zeros(one),
        largest=zeros(number),
        total=zeros(number),
        known=zeros(number),
        tree=SumTree.create(math.prod(shape)),
        most=jnp.float32(1),
        head=jnp.int32(0),
        added=jnp.int32(0),
    )


def write(state: SequenceStorage, rollout: Rollout, sizes: SequenceSizes, depth: PyTree) -> SequenceStorage:
    """Write a rollout over the oldest chunks; the priorities do not change.

    Args:
      state: the storage.
      rollout: [T, B], with extras["td_error"] f32[T, B] and extras["known"] bool[T, B].
      sizes: the sizes of the replay.
      depth: which observations are stacks, see `frames.depths`.
    """
    at, last = state.head, sizes.chunk - 1
    env = jnp.arange(sizes.num_envs, dtype=jnp.int32)
    put = lambda xs, x: jax.tree.map(lambda s, v: s.at[at].set(v), xs, x)
    by_env = lambda tree: jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), tree)
    mask = jnp.ones_like(rollout.done) if rollout.mask is None else rollout.mask
    cut = jnp.minimum(first_steps(rollout.truncated & mask, sizes.cuts), last)
    followed = jnp.concatenate([cut, jnp.full((1, sizes.num_envs), last)])
    successor = jax.tree.map(lambda x: x[followed, env], frames.newest(depth, rollout.next_observation))
    before = (at - 1) % sizes.num_chunks  # the chunk whose last step may have been the last of a dropped episode
    dropped = rollout.truncated[0] & ~mask[0] & ~state.terminated[before, env, last] & (state.added > 0)
    error = jnp.where(rollout.extras["known"], jnp.abs(rollout.extras["td_error"]), 0.0)
    return state._replace(
        observation=put(state.observation, by_env(frames.newest(depth, rollout.observation))),
        before=put(state.before, frames.older(depth, jax.tree.map(lambda x: x[0], rollout.observation))),
        action=put(state.action, by_env(rollout.action)),
        reward=put(state.reward, by_env(rollout.reward)),
        terminated=put(state.terminated, by_env(rollout.terminated)),
        truncated=put(state.truncated.at[before, env, last].max(dropped), by_env(rollout.truncated)),
        mask=put(state.mask, by_env(mask)),
        successor=put(state.successor, by_env(successor)),
        carry=put(state.carry, rollout.carry),
        largest=put(state.largest, jnp.max(error, axis=0)),
        total=put(state.total, jnp.sum(error, axis=0)),
        known=put(state.known, jnp.sum(rollout.extras["known"], axis=0, dtype=jnp.float32)),
        head=(at + 1) % sizes.num_chunks,
        added=state.added + 1,
    )


def first_steps(here: Array, num: int) -> Array:
    """Return i32[num, ...], the first steps at which bool[T, ...] is true; T if there are too few."""
    time = jnp.arange(here.shape[0], dtype=jnp.int32).reshape(-1, *[1] * (here.ndim - 1))
    return jnp.sort(jnp.where(here, time, here.shape[0]), axis=0)[:num]
