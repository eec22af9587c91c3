"""REDQ: an ensemble of critics that learns many times per step. `purerl train redq Pendulum-v1`.

As SAC, but with many critics, of which a few drawn at random make each target, and with many gradient steps per step of
the environment: the ensemble keeps the bias small that so many steps would otherwise add up.
Source: Chen et al. (2021), arXiv:2101.05982. With `layer_norm` two critics come close to what it does, as in DroQ,
Hiraoka et al. (2022), arXiv:2110.02034, which has dropout besides.
"""

from functools import partial

import jax
import jax.numpy as jnp

from purerl.algo_parts.soft_actor_critic import SoftCritics, soft_agent, squashed_policy
from purerl.algos.sac import SACConfig
from purerl.errors import InputError
from purerl.fields import validate
from purerl.networks.critics import critics
from purerl.networks.modules import Module
from purerl.optim.optimizers import Optimizer, adam_by_plan
from purerl.replay.uniform import Replay
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, number, pytree, static


@pytree
class REDQConfig(SACConfig):
    """Settings of REDQ."""

    num_critics: int = static(default=10, doc="critics, whose mean the policy climbs", at_least=1)
    num_target_critics: int = static(default=2, doc="critics of each target, drawn at random", at_least=1)
    num_gradient_steps: int = static(default=20, doc="gradient steps per update", at_least=1)
    policy_period: int = number(default=20, doc="gradient steps of the critics per one of the policy", at_least=1)


def redq(
    spec: EnvironmentSpec,
    config: REDQConfig,
    *,
    optimizer: Optimizer = partial(adam_by_plan, eps=1e-8),
    network: Module | None = None,
    replay: Replay | None = None,
) -> Algorithm:
    r"""Return REDQ.

        critics: (Q_i(s, a) - [scale r + discount (min_{j in M} Q'_j(s', a') - temperature log pi(a'|s'))])^2 / 2
        policy:  -E(mean_i Q_i(s, a) - temperature log pi(a|s)), every policy_period-th gradient step

    with M `num_target_critics` of the target networks, drawn anew for each gradient step.

    Args:
      spec: the environment's spaces: actions are a Box with finite bounds.
      config: the settings.
      optimizer: of either part: of optax, such as `optax.lion`, or `GradientPlan` -> transformation; Adam if none is
        given.
      network: a module (observation [N, ...]) -> features f32[N, n], of flax linen, or of NNX, below the policy's head;
        a critic has its own, with `hidden_sizes` on its features and the action.
      replay: a uniform one if none is given.

    Raises:
      InputError: if the settings contradict one another or the actions are not such a box.
    """
    validate(config, "redq")
    if config.num_target_critics > config.num_critics:
        raise InputError(
            f"redq: num_target_critics {config.num_target_critics} is more than num_critics {config.num_critics}"
        )
    policy = squashed_policy(spec, config, network, "redq")

    def errors(outputs: Array, targets: Array) -> tuple[Array, Array]:
        td_error = outputs - targets[:, 0]
        return 0.5 * jnp.sum(td_error**2, axis=0), jnp.mean(jnp.abs(td_error), axis=0)

    made = SoftCritics(
        networks=critics(spec.observation_space, policy.box.size, config, config.num_critics, network),
        next_values=lambda outputs, key: least_of_some(outputs, config.num_target_critics, key)[:, None],
        errors=errors,
        value=lambda outputs: jnp.mean(outputs, axis=0),
    )
    return soft_agent(spec, config, policy, made, optimizer, replay)


def least_of_some(values: Array, number: int, key: Key) -> Array:
    """Return the smallest of `number` of the critics' values f32[num, N], the same ones for all of N, f32[N]."""
    order = jnp.argsort(jax.random.uniform(key, values.shape[:1]))
    return jnp.min(values[order[:number]], axis=0)
