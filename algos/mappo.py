"""MAPPO: PPO for teams, with a critic that sees the global state. `purerl train mappo Spread`.

The algorithm is `purerl.algos.ppo.ppo`, given the config of this file. The agents of a team share one policy, and each
is a sample. The critic can see the global state, which no agent sees. It can predict normalized values, and its loss
can be the Huber loss.
Source: Yu et al. (2022), arXiv:2103.01955.
"""

import jax
import jax.numpy as jnp

from purerl.algos.ppo import PPOConfig
from purerl.functional.normalize import RunningStatistics
from purerl.functional.q_targets import huber
from purerl.types import Array, number, pytree, static


@pytree
class MAPPOConfig(PPOConfig):
    """Settings of MAPPO: PPO for several agents, whose critic sees the global state if the environment has one."""

    centralized_critic: bool = static(
        default=True, doc="with several agents: the value function sees the environment's global state"
    )
    normalize_value: bool = static(default=False, doc="normalize the value function's targets by running statistics")
    value_huber_delta: float | None = number(
        default=None,
        doc="value error above which the loss is linear, in the value function's units; none: squared loss",
        above=0,
    )

    def new_value_statistics(self) -> RunningStatistics | None:
        """Return empty statistics of the value targets if values are normalized, else None."""
        return RunningStatistics.create(jax.ShapeDtypeStruct((), jnp.float32)) if self.normalize_value else None

    def value_error(self, error: Array) -> Array:
        """Return the squared errors f32[N], or twice their Huber loss."""
        return error**2 if self.value_huber_delta is None else 2.0 * huber(error, self.value_huber_delta)
