"""Prioritized replay: samples in proportion to priorities, with importance weights."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.devices import memory
from purerl.functional.counters import increment
from purerl.replay.base import Replay
from purerl.replay.storage import Storage, create, write
from purerl.replay.sum_tree import NOWHERE, SumTree
from purerl.replay.transitions import Transitions, gather
from purerl.replay.uniform import check, stacks
from purerl.types import Array, EnvironmentSpec, Key, Rollout


class PrioritizedStorage(NamedTuple):
    """A replay's storage with a priority for every index."""

    storage: Storage
    tree: SumTree  # priority^alpha; 0 if no transition starts there
    largest: Array  # f32[], the largest priority^alpha so far: that of new steps
    rollouts: Array  # i32[], added so far; stays at the largest integer
    size: Array  # i32[], steps of a rollout

    @staticmethod
    def create(spec: EnvironmentSpec, capacity: int, num_envs: int) -> "PrioritizedStorage":
        """Return an empty storage of `capacity` steps."""
        storage = create(spec, capacity, num_envs)
        return PrioritizedStorage(
            storage=storage,
            tree=SumTree.create(storage.flag.size),
            largest=jnp.float32(1),
            rollouts=jnp.int32(0),
            size=jnp.int32(0),
        )


def nbytes(spec: EnvironmentSpec, capacity: int, num_envs: int) -> int:
    """Return the size in bytes of a prioritized replay of `capacity` steps."""
    return memory.nbytes(jax.eval_shape(lambda: PrioritizedStorage.create(spec, capacity, num_envs)))


def prioritized(
    spec: EnvironmentSpec,
    capacity: int,
    num_envs: int,
    batch_size: int,
    discount: Array | float = 0.99,
    n_step: int = 1,
    *,
    exponent: Array | float = 0.6,
    correction: Array | float = 0.4,
    correction_steps: Array | float = 1_000_000,
    floor: float = 1e-6,
) -> Replay:
    r"""Return a replay that samples in proportion to priorities.

        P(i) = p_i^alpha / sum_k p_k^alpha,  p_i = |TD error| + floor
        w_i = P(i)^-beta / max_j w_j, the maximum over the batch

    New steps get the largest priority so far.

    Args:
      spec: the environment's spaces.
      capacity: steps of all environments together.
      num_envs: B.
      batch_size: transitions per sampled batch.
      discount: per step.
      n_step: steps per transition.
      exponent: alpha; 0 samples uniformly.
      correction: initial beta; it rises linearly to 1.
      correction_steps: steps added until it is 1.
      floor: keeps every priority above 0.

    Raises:
      InputError: if it does not fit in memory, or a batch or an n-step transition does not fit in it.

    Source: Schaul et al. (2016), arXiv:1511.05952, proportional variant; samples are independent, not stratified.
    """
    check(spec, capacity, num_envs, batch_size, n_step, needed=nbytes(spec, capacity, num_envs))
    depth = stacks(spec)

    def add(state: PrioritizedStorage, rollout: Rollout) -> PrioritizedStorage:
        storage, index, void = write(state.storage, rollout, depth)
        # No step starts any more in the rows of final observations, which may have held older steps.
        indices = jnp.concatenate([index.ravel(), void.ravel()])
        tree = state.tree.set(
            jnp.where(indices < storage.flag.size, indices, NOWHERE),
            jnp.concatenate([jnp.full(index.size, state.largest), jnp.zeros(void.size)]),
        )
        rollouts, size = increment(state.rollouts), jnp.int32(index.size)
        return state._replace(storage=storage, tree=tree, rollouts=rollouts, size=size)

    def sample(state: PrioritizedStorage, key: Key) -> Transitions:
        index = state.tree.draw(key, batch_size)
        added = state.rollouts.astype(jnp.float32) * state.size.astype(jnp.float32)  # in int32 it would overflow
        beta = correction + (1.0 - correction) * jnp.minimum(added / correction_steps, 1.0)
        weight = state.tree.weight(index, beta)
        return gather(state.storage, index, weight, discount, n_step=n_step, depth=depth)

    def update(state: PrioritizedStorage, batch: Transitions, td_error: Array) -> PrioritizedStorage:
        priority = (jnp.abs(td_error) + floor) ** exponent
        counts = batch.weight > 0.0
        tree = state.tree.set(jnp.where(counts, batch.start, NOWHERE), priority)
        largest = jnp.maximum(state.largest, jnp.max(jnp.where(counts, priority, 0.0)))
        return state._replace(tree=tree, largest=largest)

    init = lambda: PrioritizedStorage.create(spec, capacity, num_envs)
    return Replay(init=init, add=add, sample=sample, update=update)
