"""Sequence replay: sequences of steps with the recurrent state before their first step, sampled by priority.

Sequences start where a chunk of `purerl.replay.sequence_storage` starts, because a recurrent state is stored there.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.errors import InputError
from purerl.replay import frames
from purerl.replay.base import Replay
from purerl.replay.sequence_storage import SequenceSizes, SequenceStorage, create, first_steps, nbytes, write
from purerl.replay.sizes import check_memory
from purerl.replay.sum_tree import NOWHERE
from purerl.types import Array, EnvironmentSpec, Key, PyTree, Rollout


class Sequences(NamedTuple):
    """N sampled sequences of L steps; time is the first axis."""

    observation: PyTree  # [L, N, ...]
    action: PyTree  # [L, N, ...]
    reward: Array  # f32[L, N]
    terminated: Array  # bool[L, N]
    truncated: Array  # bool[L, N]
    mask: Array  # bool[L, N], which steps count
    successor: PyTree  # [K, N, ...], next or final observations of some of the steps that are trained on
    follows: Array  # i32[K, N], the step that each follows, counted after the burn-in; L - burn-in: none
    carry: PyTree  # [N, ...]
    weight: Array  # f32[N]
    start: Array  # i32[N], the index of its first chunk


def sequences(
    spec: EnvironmentSpec,
    sizes: SequenceSizes,
    carry: PyTree,
    batch_size: int,
    *,
    exponent: Array | float = 0.9,
    correction: Array | float = 0.6,
    mix: Array | float = 0.9,
) -> Replay:
    r"""Return a prioritized replay of `Sequences` of burn_in + train steps.

        p = mix max_t |delta_t| + (1 - mix) mean_t |delta_t|, over the known errors of the steps that are trained on
        P(i) = p_i^alpha / sum_k p_k^alpha,  w_i = P(i)^-beta / max_j w_j

    Args:
      spec: the environment's spaces.
      sizes: the sizes of the replay and of a sequence.
      carry: the recurrent state of B environments, for its shapes.
      batch_size: sequences per sampled batch.
      exponent: alpha.
      correction: beta.
      mix: weight of the largest error against the mean error.

    Returns:
      A replay whose `add` takes rollouts with extras["td_error"] f32[T, B] and extras["known"] bool[T, B], for the
      initial priorities, and whose `update` takes the priorities p, f32[N]. A sequence without a known error gets the
      largest priority so far.

    Raises:
      InputError: if the sizes do not fit one another or the memory.

    Source: Kapturowski et al. (2019), "Recurrent experience replay in distributed reinforcement learning".
    """
    _check(spec, sizes, carry, batch_size)
    rows, num_envs, length = sizes.num_chunks, sizes.num_envs, sizes.length
    burned = sizes.burn_in // sizes.chunk
    env, depth = jnp.arange(num_envs, dtype=jnp.int32), frames.depths(spec.observation_space)

    def add(state: SequenceStorage, rollout: Rollout) -> SequenceStorage:
        at, tree = state.head, state.tree
        state = write(state, rollout, sizes, depth)
        # The sequence that ends with this chunk is complete now. The one that started with the chunk's place is gone.
        start = (at - length + 1) % rows
        trained = (start + burned + jnp.arange(length - burned, dtype=jnp.int32)) % rows
        priority = jnp.where(_is_unknown(state, trained), state.most, _power(_priority(state, trained, mix), exponent))
        is_complete = state.added >= length
        complete = jnp.where(is_complete, start * num_envs + env, NOWHERE)
        tree = tree.set(at * num_envs + env, jnp.zeros(num_envs)).set(complete, priority)
        most = jnp.maximum(state.most, jnp.where(is_complete, jnp.max(priority), 0.0))
        return state._replace(tree=tree, most=most)

    def sample(state: SequenceStorage, key: Key) -> Sequences:
        index = state.tree.draw(key, batch_size)
        return gather(state, index, state.tree.weight(index, correction), sizes, depth)

    def update(state: SequenceStorage, batch: Sequences, priority: Array) -> SequenceStorage:
        index = jnp.where(batch.weight > 0.0, batch.start, NOWHERE)
        power = _power(priority, exponent)
        most = jnp.maximum(state.most, jnp.max(jnp.where(batch.weight > 0.0, power, 0.0)))
        return state._replace(tree=state.tree.set(index, power), most=most)

    return Replay(init=lambda: create(spec, sizes, carry), add=add, sample=sample, update=update)


def _priority(state: SequenceStorage, chunks: Array, mix: Array | float) -> Array:
    """Return the priorities p, f32[B], of the sequences whose trained chunks are i32[C]."""
    count = jnp.sum(state.known[chunks], axis=0)
    mean = jnp.sum(state.total[chunks], axis=0) / jnp.maximum(count, 1.0)
    return mix * jnp.max(state.largest[chunks], axis=0) + (1.0 - mix) * mean


def _is_unknown(state: SequenceStorage, chunks: Array) -> Array:
    """Return bool[B], the sequences with trained chunks i32[C] in which steps count but no error is known."""
    return (jnp.sum(state.known[chunks], axis=0) == 0.0) & jnp.any(state.mask[chunks], axis=(0, 2))


def _power(priority: Array, exponent: Array | float) -> Array:
    return (priority + 1e-6) ** exponent


def gather(state: SequenceStorage, index: Array, weight: Array, sizes: SequenceSizes, depth: PyTree) -> Sequences:
    """Return the sequences that start at given indices.

    Args:
      state: the storage.
      index: i32[N].
      weight: f32[N].
      sizes: the sizes of the replay.
      depth: which observations are stacks, see `frames.depths`.
    """
    row, column = index // sizes.num_envs, index % sizes.num_envs
    chunk = (row + jnp.arange(sizes.length, dtype=jnp.int32)[:, None]) % sizes.num_chunks  # [L / T, N]
    steps = lambda storage: _steps(storage[chunk, column])
    observation = _observations(state, chunk, column, depth)
    follows = _followed_steps(state, chunk, column, sizes)
    return Sequences(
        observation=observation,
        action=jax.tree.map(steps, state.action),
        reward=steps(state.reward),
        terminated=steps(state.terminated),
        truncated=steps(state.truncated),
        mask=steps(state.mask),
        successor=_successors(state, chunk, column, observation=observation, follows=follows, sizes=sizes, depth=depth),
        follows=follows,
        carry=jax.tree.map(lambda x: x[row, column], state.carry),
        weight=weight,
        start=index,
    )


def _steps(chunks: Array) -> Array:
    """Return [C, N, T, ...] as [C x T, N, ...]."""
    chunks = jnp.moveaxis(chunks, 2, 1)
    return jax.lax.collapse(chunks, 0, 2)


def _observations(state: SequenceStorage, chunk: Array, column: Array, depth: PyTree) -> PyTree:
    """Return the observations [L, N, ...] of chunks i32[L / T, N] of environments i32[N]."""
    flat = lambda tree: jax.tree.map(lambda x: jax.lax.collapse(x[chunk, column], 0, 2), tree)
    done = flat(state.terminated) | flat(state.truncated)
    unrolled = frames.unroll(depth, flat(state.observation), flat(state.before), done)  # [L / T x N, T, ...]
    return jax.tree.map(lambda x: _steps(x.reshape(*chunk.shape, *x.shape[1:])), unrolled)


def _followed_steps(state: SequenceStorage, chunk: Array, column: Array, sizes: SequenceSizes) -> Array:
    """Return `Sequences.follows`: the truncated steps of each trained chunk, and the last step, i32[K, N]."""
    trained = chunk[sizes.burn_in // sizes.chunk :]
    cut = jnp.moveaxis(state.truncated[trained, column] & state.mask[trained, column], 2, 0)  # [T, chunks, N]
    step = first_steps(cut, sizes.cuts)
    start = jnp.arange(0, sizes.train, sizes.chunk, dtype=jnp.int32)[:, None]
    step = jnp.where(step < sizes.chunk, start + step, sizes.train).reshape(-1, column.shape[0])
    return jnp.concatenate([step, jnp.full((1, column.shape[0]), sizes.train - 1, jnp.int32)])


def _successors(
    state: SequenceStorage,
    chunk: Array,
    column: Array,
    *,
    observation: PyTree,
    follows: Array,
    sizes: SequenceSizes,
    depth: PyTree,
) -> PyTree:
    """Return `Sequences.successor` [K, N, ...], of observations [L, N, ...] and followed steps i32[K, N]."""
    trained = chunk[sizes.burn_in // sizes.chunk :]

    def newest(storage: Array) -> Array:
        taken = jnp.moveaxis(storage[trained, column], 2, 0)  # [S + 1, chunks, N, ...]
        return jnp.concatenate([jax.lax.collapse(taken[:-1], 0, 2), taken[-1, -1:]])

    at = sizes.burn_in + jnp.minimum(follows, sizes.train - 1)
    before = jax.tree.map(lambda x: x[at, jnp.arange(column.shape[0])], observation)
    return frames.following(depth, before, jax.tree.map(newest, state.successor))


def _check(spec: EnvironmentSpec, sizes: SequenceSizes, carry: PyTree, batch_size: int) -> None:
    if sizes.burn_in % sizes.chunk or sizes.train % sizes.chunk:
        raise InputError(
            f"burn_in {sizes.burn_in} and sequence_length {sizes.train} must be multiples of rollout_length "
            f"{sizes.chunk}: sequences begin where a recurrent state is stored"
        )
    if sizes.length > sizes.num_chunks:
        raise InputError(
            f"a sequence of {sizes.burn_in} + {sizes.train} steps is longer than an environment's share of the replay, "
            f"{sizes.num_chunks * sizes.chunk}"
        )
    if batch_size > sizes.num_chunks * sizes.num_envs:
        raise InputError(
            f"batch_size {batch_size} is larger than the sequences that the replay holds, "
            f"{sizes.num_chunks * sizes.num_envs}"
        )
    check_memory(nbytes(spec, sizes, carry), sizes.capacity)


def after_burn_in(batch: Sequences, burn_in: int) -> Sequences:
    """Return the sequences without their first `burn_in` steps; the carry stays that before the burn-in."""
    late = lambda tree: jax.tree.map(lambda x: x[burn_in:], tree)
    return batch._replace(
        observation=late(batch.observation),
        action=late(batch.action),
        reward=late(batch.reward),
        terminated=late(batch.terminated),
        truncated=late(batch.truncated),
        mask=late(batch.mask),
    )


def successors_held(batch: Sequences, burn_in: int) -> Array:
    """Return bool[L, N], the steps after the burn-in that are not truncated or whose final observation is stored."""
    env = jnp.arange(batch.truncated.shape[1])
    return (~batch.truncated[burn_in:]).at[batch.follows, env].set(True, mode="drop")
