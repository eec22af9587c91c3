"""Running normalization of observations, rewards and values, with statistics that all environments share."""

import math
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax.tree_util import KeyPath

from purerl.functional import masked
from purerl.types import Array, PyTree

LEAST_VARIANCE = 1e-2  # lower bound for values, so that noise is not amplified when targets hardly differ


class RunningStatistics(NamedTuple):
    """Mean and variance of all samples so far; leaves have the shape of one observation."""

    samples: Array  # f32[], how many
    mean: PyTree  # f32[...]
    variance: PyTree  # f32[...]

    @staticmethod
    def create(struct: PyTree) -> "RunningStatistics":
        """Return the statistics before any sample: mean 0, variance 1."""
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), struct)
        ones = jax.tree.map(lambda leaf: jnp.ones(leaf.shape, jnp.float32), struct)
        return RunningStatistics(samples=jnp.float32(0), mean=zeros, variance=ones)

    def update(self, batch: PyTree, mask: Array | None = None) -> "RunningStatistics":
        """Add a batch; its leading axes beyond an observation's are samples, of which only those in `mask` count.

        Source: Chan, Golub and LeVeque (1983), the pairwise update of mean and variance.
        """
        first = jax.tree.leaves(batch)[0]
        leading = first.ndim - jax.tree.leaves(self.mean)[0].ndim
        axes = tuple(range(leading))
        if mask is None:
            added = jnp.float32(math.prod(first.shape[:leading]))
        else:
            added = jnp.sum(mask, dtype=jnp.float32)
        total = self.samples + added

        def combine(path: KeyPath, mean: Array, variance: Array, x: Array) -> tuple[Array, Array]:
            if _is_mask(path):
                return mean, variance
            x = x.astype(jnp.float32)
            delta = masked.mean(x, mask, axes) - mean
            chex.assert_shape(x, (*(None,) * leading, *mean.shape))
            new = masked.variance(x, mask, axes) * added
            squares = variance * self.samples + new + delta**2 * (self.samples * added / total)
            return mean + delta * (added / total), squares / total

        pairs = jax.tree.map_with_path(combine, self.mean, self.variance, batch)
        mean, variance = jax.tree.transpose(jax.tree.structure(self.mean), jax.tree.structure((0, 0)), pairs)
        updated = RunningStatistics(samples=total, mean=mean, variance=variance)
        if mask is None:
            return updated
        return jax.tree.map(lambda new, old: jnp.where(added > 0, new, old), updated, self)

    def normalize(self, value: PyTree, limit: float = 10.0) -> PyTree:
        """Return (value - mean) / std, float32, clipped to +-limit.

        Flags, integers other than bytes, and masks of legal actions in any dtype do not change.
        """

        def standardize(path: KeyPath, x: Array, mean: Array, variance: Array) -> Array:
            if _is_mask(path) or (x.dtype != jnp.uint8 and not jnp.issubdtype(x.dtype, jnp.floating)):
                return x
            return jnp.clip((x.astype(jnp.float32) - mean) * jax.lax.rsqrt(variance + 1e-8), -limit, limit)

        return jax.tree.map_with_path(standardize, value, self.mean, self.variance)


def _is_mask(path: KeyPath) -> bool:
    """Return whether a leaf lies in "action_mask", of the observation or of a group."""
    return any(getattr(part, "key", None) == "action_mask" for part in path)


def normalized(statistics: RunningStatistics | None, observation: PyTree) -> PyTree:
    """Return an observation standardized by running statistics; without statistics, unchanged."""
    return observation if statistics is None else statistics.normalize(observation)


def normalized_values(statistics: RunningStatistics | None, value: Array) -> Array:
    """Return values in the critic's units, (value - mean) / std, f32[...] -> f32[...].

    Without statistics they do not change.

    Source: Yu et al. (2022), arXiv:2103.01955; here all targets so far weigh the same.
    """
    if statistics is None:
        return value
    return (value - statistics.mean) / jnp.sqrt(jnp.maximum(statistics.variance, LEAST_VARIANCE))


def denormalized_values(statistics: RunningStatistics | None, value: Array) -> Array:
    """Return the inverse of `normalized_values`: a critic's predictions in units of the reward."""
    if statistics is None:
        return value
    return value * jnp.sqrt(jnp.maximum(statistics.variance, LEAST_VARIANCE)) + statistics.mean


class ReturnScale(NamedTuple):
    """The running standard deviation of discounted returns, by which rewards are divided."""

    discounted: Array  # f32[B], of the running episodes
    statistics: RunningStatistics  # scalar statistics of `discounted`

    @staticmethod
    def create(num_envs: int) -> "ReturnScale":
        """Return the scale before any reward."""
        return ReturnScale(jnp.zeros(num_envs), RunningStatistics.create(jax.ShapeDtypeStruct((), jnp.float32)))

    def update(self, reward: Array, done: Array, discount: Array | float, mask: Array | None = None) -> "ReturnScale":
        """Add a rollout: reward f32[T, B], done bool[T, B]; only the steps in mask bool[T, B] count."""
        chex.assert_shape([reward, done], (None, *self.discounted.shape))

        def step(discounted: Array, at: tuple[Array, Array, Array | None]) -> tuple[Array, Array]:
            reward, done, counts = at
            later = discounted * discount + reward
            discounted = later if counts is None else jnp.where(counts, later, discounted)
            return jnp.where(done, 0.0, discounted), discounted

        discounted, all_discounted = jax.lax.scan(step, self.discounted, (reward, done, mask))
        return ReturnScale(discounted, self.statistics.update(all_discounted, mask))

    def normalize(self, reward: Array, limit: float = 10.0) -> Array:
        """Return reward / std of returns, clipped to +-limit."""
        return jnp.clip(reward * jax.lax.rsqrt(self.statistics.variance + 1e-8), -limit, limit)
