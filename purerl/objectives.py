"""Policy objectives: per-sample losses as data, with parameters of their own."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from purerl.errors import InputError
from purerl.types import Array, number, pytree

Objective = Callable[[Array, Array, Mapping[str, Any]], Array]


@pytree
class Clip:
    r"""PPO's clipped objective: -min(r A, clip(r, 1 - epsilon, 1 + epsilon) A), with r = exp(log_ratio).

    Source: Schulman et al. (2017), arXiv:1707.06347.
    """

    epsilon: Any = number(default=0.2, doc="how far the ratio may move before its gradient stops", above=0)

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, Any]) -> Array:
        """Return the loss of each sample, f32[N], of log_ratio f32[N] and advantage f32[N]."""
        ratio = jnp.exp(log_ratio)
        clipped = jnp.clip(ratio, 1 - self.epsilon, 1 + self.epsilon)
        return -jnp.minimum(ratio * advantage, clipped * advantage)


def per_sample(objective: Objective, log_ratio: Array, advantage: Array, context: Mapping[str, Any]) -> Array:
    """Evaluate an objective and hold it to one loss per sample.

    Raises:
      InputError: if the shape of what it returns is not that of `log_ratio`; an [N, 1] beside an [N] would silently
        make the loss N x N.
    """
    loss = objective(log_ratio, advantage, context)
    if jnp.shape(loss) != log_ratio.shape:
        raise InputError(
            f"objective {type(objective).__name__} returned shape {jnp.shape(loss)}; it must return one loss per "
            f"sample, shape {log_ratio.shape}"
        )
    return loss
