"""Prioritized replay: draws in proportion to priorities in a sum tree, corrected by importance weights."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.devices import memory
from purerl.functional.counters import increment
from purerl.replay import uniform
from purerl.replay.uniform import Replay, Storage, Transitions
from purerl.types import Array, EnvironmentSpec, Key, Rollout

WIDTH = 8  # children of a node; measured on a CPU: the narrow tree is the fastest, though it has seven levels
NOWHERE = np.int32(2**31 - 1)  # an index that is written to no leaf


class SumTree(NamedTuple):
    """Non-negative numbers and the sums of every WIDTH of them, of every WIDTH sums, ...

    Setting and drawing N leaves costs O(N log size), in arrays of N x WIDTH, and vmaps.
    """

    levels: tuple[Array, ...]  # f32[n_k], from the root's children to the leaves; each n_k is a multiple of WIDTH

    @staticmethod
    def create(size: int) -> "SumTree":
        """Return `size` zeros."""
        sizes = [_padded(size)]
        while sizes[-1] > WIDTH:
            sizes.append(_padded(sizes[-1] // WIDTH))
        return SumTree(tuple(jnp.zeros(n) for n in reversed(sizes)))

    def total(self) -> Array:
        """Return f32[]: the sum of all leaves."""
        return jnp.sum(self.levels[0])

    def at(self, index: Array) -> Array:
        """Return the leaves f32[N] at i32[N]."""
        return jnp.take(self.levels[-1], index, mode="clip")

    def set(self, index: Array, value: Array) -> "SumTree":
        """Set the leaves at i32[N] to f32[N]; one index given twice gets one of its values.

        Sums are computed anew from their parts, so that rounding does not build up.
        """
        levels = [self.levels[-1].at[index].set(value, mode="drop")]
        for above in reversed(self.levels[:-1]):
            index = jnp.where(index == NOWHERE, NOWHERE, index // WIDTH)
            sums = jnp.sum(self._children(levels[0], index), axis=-1)
            levels.insert(0, above.at[index].set(sums, mode="drop"))
        return SumTree(tuple(levels))

    def draw(self, key: Key, num: int) -> Array:
        """Draw i32[num] leaves, each with probability value / total; one of value 0 only if all are 0.

        Every level has its random number: one for all would be used up, bit by bit, on the way down.
        """
        uniform = jax.random.uniform(key, (len(self.levels), num))
        index = jnp.zeros(num, jnp.int32)
        for level, u in zip(self.levels, uniform, strict=True):
            sums = jnp.cumsum(self._children(level, index), axis=-1)
            most = sums[:, -1]
            # Below the whole, also after rounding: the count then stops at a child above 0.
            target = jnp.minimum(u * most, jnp.nextafter(most, jnp.float32(0)))
            child = jnp.sum((sums <= target[:, None]).astype(jnp.int32), axis=-1)
            index = index * WIDTH + jnp.minimum(child, WIDTH - 1)
        return index

    def _children(self, level: Array, parent: Array) -> Array:
        return jnp.take(level.reshape(-1, WIDTH), parent, axis=0, mode="clip")


def _padded(size: int) -> int:
    return -(-size // WIDTH) * WIDTH


class PrioritizedStorage(NamedTuple):
    """A replay's storage with a priority for every index."""

    storage: Storage
    tree: SumTree  # priority^alpha; 0 where no transition starts
    largest: Array  # f32[], the largest priority^alpha so far: what new steps get
    rollouts: Array  # i32[], added so far; stays at the largest integer
    size: Array  # i32[], steps of a rollout


def nbytes(spec: EnvironmentSpec, capacity: int, num_envs: int) -> int:
    """Return how many bytes a prioritized replay of `capacity` steps takes."""

    def held() -> tuple[Storage, SumTree]:
        storage = uniform.create(spec, capacity, num_envs)
        return storage, SumTree.create(storage.flag.size)

    return memory.nbytes(jax.eval_shape(held))


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
    r"""Return a replay that draws in proportion to priorities.

        P(i) = p_i^alpha / sum_k p_k^alpha,  p_i = |TD error| + floor
        w_i = P(i)^-beta / max_j w_j, the maximum over the batch

    New steps get the largest priority so far.

    Args:
      spec: the environment's spaces.
      capacity: steps of all environments together.
      num_envs: B.
      batch_size: transitions per draw.
      discount: per step.
      n_step: steps per transition.
      exponent: alpha; 0 draws uniformly.
      correction: beta at first; it rises linearly to 1.
      correction_steps: steps added until it is 1.
      floor: keeps every priority above 0.

    Raises:
      InputError: if it does not fit in memory or a batch or n-step transition does not fit in it.

    Source: Schaul et al. (2016), arXiv:1511.05952, proportional variant; draws are independent, not stratified.
    """
    uniform.check(spec, capacity, num_envs, batch_size, n_step, nbytes(spec, capacity, num_envs))
    depth = uniform.stacks(spec)

    def init() -> PrioritizedStorage:
        storage = uniform.create(spec, capacity, num_envs)
        return PrioritizedStorage(
            storage=storage,
            tree=SumTree.create(storage.flag.size),
            largest=jnp.float32(1),
            rollouts=jnp.int32(0),
            size=jnp.int32(0),
        )

    def add(state: PrioritizedStorage, rollout: Rollout) -> PrioritizedStorage:
        storage, index, void = uniform.write(state.storage, rollout, depth)
        # Where a successor is written apart an older step may have started: none does any more.
        indices = jnp.concatenate([index.ravel(), void.ravel()])
        tree = state.tree.set(
            jnp.where(indices < storage.flag.size, indices, NOWHERE),
            jnp.concatenate([jnp.full(index.size, state.largest), jnp.zeros(void.size)]),
        )
        rollouts = increment(state.rollouts)
        size = jnp.int32(index.size)
        return PrioritizedStorage(storage=storage, tree=tree, largest=state.largest, rollouts=rollouts, size=size)

    def sample(state: PrioritizedStorage, key: Key) -> Transitions:
        index = state.tree.draw(key, batch_size)
        added = state.rollouts.astype(jnp.float32) * state.size.astype(jnp.float32)  # in int32 it would overflow
        beta = correction + (1.0 - correction) * jnp.minimum(added / correction_steps, 1.0)
        priority = state.tree.at(index)
        weight = jnp.where(priority > 0.0, (priority / jnp.maximum(jnp.min(priority), 1e-30)) ** -beta, 0.0)
        return uniform.gather(state.storage, index, weight, discount, n_step, depth)

    def update(state: PrioritizedStorage, batch: Transitions, td_error: Array) -> PrioritizedStorage:
        priority = (jnp.abs(td_error) + floor) ** exponent
        counts = batch.weight > 0.0
        tree = state.tree.set(jnp.where(counts, batch.start, NOWHERE), priority)
        largest = jnp.maximum(state.largest, jnp.max(jnp.where(counts, priority, 0.0)))
        return state._replace(tree=tree, largest=largest)

    return Replay(init=init, add=add, sample=sample, update=update)
