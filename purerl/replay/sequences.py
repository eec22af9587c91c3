"""Sequence replay: sequences of steps with the recurrent state they began with, drawn by priority.

Each rollout is stored as one chunk per environment, with its first recurrent state, so that sequences begin there.
An observation is stored once: a step's successor is the next step's observation. Besides, a chunk holds the true
successors of its last step and of the first 1 + T // 8 of its T steps at which an episode was truncated; so all are
there if no episode is truncated within 8 steps. Of stacked frames a step stores the newest; the others of a chunk's
first observation are stored with the chunk.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.devices import memory
from purerl.errors import InputError
from purerl.replay import frames
from purerl.replay.prioritized import NOWHERE, SumTree
from purerl.replay.sizes import check_memory
from purerl.replay.uniform import Replay
from purerl.types import Array, EnvironmentSpec, Key, PyTree, Rollout


class SequenceStorage(NamedTuple):
    """K chunks of T steps of B environments. Index p, i32, means the sequence that begins at chunk p // B of p % B."""

    observation: PyTree  # [K, B, T, ...], the newest frame of a stack
    before: PyTree  # [K, B, ...], the other frames of stacks in the chunk's first observation
    action: PyTree  # [K, B, T, ...]
    reward: Array  # f32[K, B, T]
    terminated: Array  # bool[K, B, T]
    truncated: Array  # bool[K, B, T]
    mask: Array  # bool[K, B, T], which steps count
    successor: PyTree  # [K, B, S + 1, ...], after the first S truncated steps of the chunk, and after its last step
    carry: PyTree  # [K, B, ...], before the chunk's first step
    largest: Array  # f32[K, B], the largest |TD error| in the chunk when it was recorded
    total: Array  # f32[K, B], the sum of them
    known: Array  # f32[K, B], how many were known
    tree: SumTree  # priority^exponent of the sequences
    most: Array  # f32[], the largest priority^exponent so far: what a sequence gets of whose errors none is known
    head: Array  # i32[], the chunk that the next rollout goes to
    added: Array  # i32[], chunks so far


class Sequences(NamedTuple):
    """N drawn sequences of L steps; time first."""

    observation: PyTree  # [L, N, ...]
    action: PyTree  # [L, N, ...]
    reward: Array  # f32[L, N]
    terminated: Array  # bool[L, N]
    truncated: Array  # bool[L, N]
    mask: Array  # bool[L, N], which steps count
    successor: PyTree  # [K, N, ...], the true successors of some of the steps that are trained on
    follows: Array  # i32[K, N], the step that each follows, counted after the burn-in; as many as are trained on: none
    carry: PyTree  # [N, ...]
    weight: Array  # f32[N]
    start: Array  # i32[N], the index of its first chunk


class SequenceSizes(NamedTuple):
    """How long things are, in steps of one environment."""

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
        """Truncated steps of a chunk whose successors are held, S."""
        return 1 + self.chunk // 8

    @property
    def num_chunks(self) -> int:
        """Stored chunks of each environment."""
        return -(-self.capacity // (self.num_envs * self.chunk))


def nbytes(spec: EnvironmentSpec, sizes: SequenceSizes, carry: PyTree) -> int:
    """Return how many bytes the replay takes; `carry` is the recurrent state of B environments."""
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

        p = mix max_t |delta_t| + (1 - mix) mean_t |delta_t|, over the steps that are trained on and known
        P(i) = p_i^alpha / sum_k p_k^alpha,  w_i = P(i)^-beta / max_j w_j

    Args:
      spec: the environment's spaces.
      sizes: of the replay and of a sequence.
      carry: the recurrent state of B environments, for its shapes.
      batch_size: sequences per draw.
      exponent: alpha.
      correction: beta.
      mix: between the largest and the mean error.

    Returns:
      A replay whose `add` takes rollouts with extras["td_error"] f32[T, B] and extras["known"] bool[T, B], for the
      first priorities, and whose `update` takes the priorities p, f32[N]. A sequence of whose steps none is known gets
      the largest priority so far.

    Raises:
      InputError: if the sizes do not fit one another or the memory there is.

    Source: Kapturowski et al. (2019), "Recurrent experience replay in distributed reinforcement learning".
    """
    _check(spec, sizes, carry, batch_size)
    rows, num_envs, length = sizes.num_chunks, sizes.num_envs, sizes.length
    burned = sizes.burn_in // sizes.chunk
    env, depth = jnp.arange(num_envs, dtype=jnp.int32), frames.depths(spec.observation_space)

    def add(state: SequenceStorage, rollout: Rollout) -> SequenceStorage:
        at, last = state.head, sizes.chunk - 1
        put = lambda xs, x: jax.tree.map(lambda s, v: s.at[at].set(v), xs, x)
        by_env = lambda tree: jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), tree)
        mask = jnp.ones_like(rollout.done) if rollout.mask is None else rollout.mask
        cut = jnp.minimum(_first_steps(rollout.truncated & mask, sizes.cuts), last)
        followed = jnp.concatenate([cut, jnp.full((1, num_envs), last)])
        successor = jax.tree.map(lambda x: x[followed, env], frames.newest(depth, rollout.next_observation))
        before = (at - 1) % rows  # the chunk that ends with a step at which an episode may have been given up
        given_up = rollout.truncated[0] & ~mask[0] & ~state.terminated[before, env, last] & (state.added > 0)
        truncated = state.truncated.at[before, env, last].max(given_up)
        error = jnp.where(rollout.extras["known"], jnp.abs(rollout.extras["td_error"]), 0.0)
        largest, total = put(state.largest, jnp.max(error, axis=0)), put(state.total, jnp.sum(error, axis=0))
        known = put(state.known, jnp.sum(rollout.extras["known"], axis=0, dtype=jnp.float32))
        # The sequence that ends with this chunk is whole now; the one that began where the chunk went is no more.
        begin = (at - length + 1) % rows
        trained = (begin + burned + jnp.arange(length - burned, dtype=jnp.int32)) % rows
        count = jnp.sum(known[trained], axis=0)
        mean = jnp.sum(total[trained], axis=0) / jnp.maximum(count, 1.0)
        priority = _power(mix * jnp.max(largest[trained], axis=0) + (1.0 - mix) * mean, exponent)
        held_mask = put(state.mask, by_env(mask))
        unknown = (count == 0.0) & jnp.any(held_mask[trained], axis=(0, 2))
        priority = jnp.where(unknown, state.most, priority)
        is_whole = state.added + 1 >= length
        whole = jnp.where(is_whole, begin * num_envs + env, NOWHERE)
        tree = state.tree.set(at * num_envs + env, jnp.zeros(num_envs))
        return SequenceStorage(
            observation=put(state.observation, by_env(frames.newest(depth, rollout.observation))),
            before=put(state.before, frames.older(depth, jax.tree.map(lambda x: x[0], rollout.observation))),
            action=put(state.action, by_env(rollout.action)),
            reward=put(state.reward, by_env(rollout.reward)),
            terminated=put(state.terminated, by_env(rollout.terminated)),
            truncated=put(truncated, by_env(rollout.truncated)),
            mask=held_mask,
            successor=put(state.successor, by_env(successor)),
            carry=put(state.carry, rollout.carry),
            largest=largest,
            total=total,
            known=known,
            tree=tree.set(whole, priority),
            most=jnp.maximum(state.most, jnp.where(is_whole, jnp.max(priority), 0.0)),
            head=(at + 1) % rows,
            added=state.added + 1,
        )

    def sample(state: SequenceStorage, key: Key) -> Sequences:
        index = state.tree.draw(key, batch_size)
        column, row = index % num_envs, index // num_envs
        chunk = (row + jnp.arange(length, dtype=jnp.int32)[:, None]) % rows  # [L / T, N]
        priority = state.tree.at(index)
        weight = jnp.where(priority > 0.0, (priority / jnp.maximum(jnp.min(priority), 1e-30)) ** -correction, 0.0)

        def steps(storage: Array) -> Array:
            drawn = jnp.moveaxis(storage[chunk, column], 2, 1)  # [L / T, T, N, ...]
            return drawn.reshape(-1, *drawn.shape[2:])

        def observations() -> PyTree:
            of = lambda tree: jax.tree.map(lambda x: x[chunk, column].reshape(-1, *x.shape[2:]), tree)
            done = of(state.terminated) | of(state.truncated)
            whole = frames.unroll(depth, of(state.observation), of(state.before), done)  # [L / T x N, T, ...]
            apart = lambda x: jnp.moveaxis(x.reshape(length, batch_size, *x.shape[1:]), 2, 1)
            return jax.tree.map(lambda x: apart(x).reshape(-1, batch_size, *x.shape[2:]), whole)

        def successors(observation: PyTree) -> tuple[PyTree, Array]:
            """Return (successors [K, N, ...], the steps that they follow i32[K, N])."""
            train, of = sizes.train, chunk[burned:]
            cut = jnp.moveaxis(state.truncated[of, column] & state.mask[of, column], 2, 0)  # [T, chunks, N]
            step = _first_steps(cut, sizes.cuts)
            begin = jnp.arange(0, train, sizes.chunk, dtype=jnp.int32)[:, None]
            step = jnp.where(step < sizes.chunk, begin + step, train).reshape(-1, batch_size)
            follows = jnp.concatenate([step, jnp.full((1, batch_size), train - 1, jnp.int32)])

            def held(x: Array) -> Array:
                drawn = jnp.moveaxis(x[of, column], 2, 0)  # [S + 1, chunks, N, ...]
                return jnp.concatenate([drawn[:-1].reshape(-1, *drawn.shape[2:]), drawn[-1, -1:]])

            at = sizes.burn_in + jnp.minimum(follows, train - 1)
            before = jax.tree.map(lambda x: x[at, jnp.arange(batch_size)], observation)
            return frames.following(depth, before, jax.tree.map(held, state.successor)), follows

        observation = observations()
        successor, follows = successors(observation)
        return Sequences(
            observation=observation,
            action=jax.tree.map(steps, state.action),
            reward=steps(state.reward),
            terminated=steps(state.terminated),
            truncated=steps(state.truncated),
            mask=steps(state.mask),
            successor=successor,
            follows=follows,
            carry=jax.tree.map(lambda x: x[row, column], state.carry),
            weight=weight,
            start=index,
        )

    def update(state: SequenceStorage, batch: Sequences, priority: Array) -> SequenceStorage:
        index = jnp.where(batch.weight > 0.0, batch.start, NOWHERE)
        power = _power(priority, exponent)
        most = jnp.maximum(state.most, jnp.max(jnp.where(batch.weight > 0.0, power, 0.0)))
        return state._replace(tree=state.tree.set(index, power), most=most)

    return Replay(init=lambda: create(spec, sizes, carry), add=add, sample=sample, update=update)


def _first_steps(here: Array, num: int) -> Array:
    """Return i32[num, ...], the first steps at which bool[T, ...] holds; T where there is none."""
    time = jnp.arange(here.shape[0], dtype=jnp.int32).reshape(-1, *[1] * (here.ndim - 1))
    return jnp.sort(jnp.where(here, time, here.shape[0]), axis=0)[:num]


def _power(priority: Array, exponent: Array | float) -> Array:
    return (priority + 1e-6) ** exponent


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
    """Return the sequences without their first `burn_in` steps; the carry stays that of the first of all."""
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
    """Return bool[L, N], the steps after the burn-in whose true successor the sequence holds, or that need none."""
    env = jnp.arange(batch.truncated.shape[1])
    return (~batch.truncated[burn_in:]).at[batch.follows, env].set(True, mode="drop")


def with_successors(along: Array, successor: Array, follows: Array) -> Array:
    """Return what stands after every step, [L, N, ...]: at the next step, or with its true successor where held.

    Args:
      along: [L, N, ...], of every step.
      successor: [K, N, ...], of true successors.
      follows: i32[K, N], the steps that these follow; L: none.
    """
    following = jnp.concatenate([along[1:], jnp.zeros_like(along[:1])])
    return following.at[follows, jnp.arange(along.shape[1])].set(successor, mode="drop")
