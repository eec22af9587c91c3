"""Batch renormalization, and critics that have it before and after each hidden layer."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.functional import masked
from purerl.functional.action_masks import without_mask
from purerl.networks.encoder import NetworkConfig, make_torso
from purerl.networks.torsos import ACTIVATIONS, dense
from purerl.spaces import Box, Dict, Space
from purerl.types import Array, Key, PyTree

LARGEST_RATIO, LARGEST_SHIFT = 3.0, 5.0  # bounds of the correction to the running statistics, after the warmup
EPSILON = 1e-3  # added to variances


class BatchRenorm(nn.Module):
    """Standardize the last axis f32[N, n], by the running statistics or, in training, by the batch's.

    In training the output is corrected to what the running statistics would give, up to bounds; gradients flow through
    the batch's own. The collection "batch_stats" holds the running statistics.

    Source: Ioffe (2017), arXiv:1702.03275.
    """

    @nn.compact
    def __call__(
        self,
        x: Array,
        train: bool,
        step: Array | float = 0.0,
        warmup: Array | int = 0,
        counted: Array | None = None,
    ) -> Array:
        """Return the output; if `train`, also move the running statistics by `step` toward the batch's.

        The first `warmup` batches are not corrected. The batch's statistics are computed over the rows that are
        `counted`, bool[N]; None: all.
        """
        size = x.shape[-1:]
        mean = self.variable("batch_stats", "mean", jnp.zeros, size)
        variance = self.variable("batch_stats", "variance", jnp.ones, size)
        batches = self.variable("batch_stats", "batches", lambda: jnp.float32(0))
        scale, bias = self.param("scale", nn.initializers.ones, size), self.param("bias", nn.initializers.zeros, size)
        if not train:
            return (x - mean.value) * jax.lax.rsqrt(variance.value + EPSILON) * scale + bias
        own_mean, own_variance = masked.mean(x, counted, (0,)), masked.variance(x, counted, (0,))
        own_std, std = jnp.sqrt(own_variance + EPSILON), jnp.sqrt(variance.value + EPSILON)
        ratio = jnp.clip(own_std / std, 1.0 / LARGEST_RATIO, LARGEST_RATIO)
        shift = jnp.clip((own_mean - mean.value) / std, -LARGEST_SHIFT, LARGEST_SHIFT)
        warm = batches.value >= warmup
        ratio, shift = jax.lax.stop_gradient((jnp.where(warm, ratio, 1.0), jnp.where(warm, shift, 0.0)))
        mean.value = mean.value + step * (own_mean - mean.value)
        variance.value = variance.value + step * (own_variance - variance.value)
        batches.value = batches.value + 1.0
        return ((x - own_mean) / own_std * ratio + shift) * scale + bias


class NormedApply(Protocol):
    """`NormedCritics.apply`."""

    def __call__(self, params: PyTree, state: PyTree, observation: PyTree, action: Array, /) -> Array:
        """Return f32[num, N] of observations [N, *] and actions in [-1, 1] f32[N, n], by the running statistics."""
        ...


class NormedTrain(Protocol):
    """`NormedCritics.train`."""

    def __call__(
        self,
        params: PyTree,
        state: PyTree,
        observation: PyTree,
        action: Array,
        *,
        step: Array | float,
        warmup: Array | int = 0,
        counted: Array | None = None,
    ) -> tuple[Array, PyTree]:
        """Return (values f32[num, N], state), by the statistics of the batch.

        Args:
          params, state: the critics' parameters and running statistics.
          observation: [N, *].
          action: in [-1, 1], f32[N, n].
          step: how far the running statistics move to the batch's.
          warmup: number of batches that are normalized only by their own statistics.
          counted: bool[N], the rows from which the statistics are computed; None: all.
        """
        ...


class NormedCritics(NamedTuple):
    """Several Q functions with batch renormalization; `state` holds their running statistics."""

    init: Callable[[Key], tuple[PyTree, PyTree]]  # key -> (params, state)
    apply: NormedApply
    train: NormedTrain


class _NormedCritic(nn.Module):
    torso: nn.Module
    hidden_sizes: tuple[int, ...]
    activation: str
    initializer: str

    @nn.compact
    def __call__(self, joint: PyTree, train: bool, **statistics: PyTree) -> Array:
        x = BatchRenorm()(self.torso(joint), train, **statistics)
        for size in self.hidden_sizes:
            x = ACTIVATIONS[self.activation](dense(size, 2**0.5, initializer=self.initializer)(x))
            x = BatchRenorm()(x, train, **statistics)
        return dense(1, 1.0, initializer=self.initializer)(x)[..., 0]


def normed_critics(
    space: Space, action_size: int, config: NetworkConfig, *, hidden_sizes: tuple[int, ...], num: int
) -> NormedCritics:
    """Return critics for an observation space; their input is the observation next to the action.

    Args:
      space: the space of observations.
      action_size: numbers of an action.
      config: the settings of the layers below the hidden layers.
      hidden_sizes: units of the hidden layers.
      num: how many critics.
    """
    joint = Dict(spaces={"action": Box(low=-1.0, high=1.0, shape=(action_size,)), "observation": without_mask(space)})
    torso, _ = make_torso(joint, config, ())
    module: Any = _NormedCritic(
        torso=torso, hidden_sizes=hidden_sizes, activation=config.activation, initializer=config.initializer
    )

    def pair(observation: PyTree, action: Array) -> PyTree:
        return {"action": action, "observation": observation}

    def init(key: Key) -> tuple[PyTree, PyTree]:
        example = jax.tree.map(lambda x: x[None], joint.zeros())
        made = [module.init(key, example, False) for key in jax.random.split(key, num)]
        return tuple(one["params"] for one in made), tuple(one["batch_stats"] for one in made)

    def variables(params: PyTree, state: PyTree) -> list[dict[str, PyTree]]:
        return [{"params": one, "batch_stats": its} for one, its in zip(params, state, strict=True)]

    def apply(params: PyTree, state: PyTree, observation: PyTree, action: Array) -> Array:
        return jnp.stack([module.apply(both, pair(observation, action), False) for both in variables(params, state)])

    def train(
        params: PyTree,
        state: PyTree,
        observation: PyTree,
        action: Array,
        *,
        step: Array | float,
        warmup: Array | int = 0,
        counted: Array | None = None,
    ) -> tuple[Array, PyTree]:
        one = partial(module.apply, mutable=["batch_stats"])
        how: Any = {"train": True, "step": step, "warmup": warmup, "counted": counted}
        done = [one(both, pair(observation, action), **how) for both in variables(params, state)]
        return jnp.stack([values for values, _ in done]), tuple(changed["batch_stats"] for _, changed in done)

    return NormedCritics(init=init, apply=apply, train=train)
