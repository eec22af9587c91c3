"""TQC: truncated quantile critics, with continuous actions. `purerl train tqc Pendulum-v1`.

Like SAC, but critics are distributions of returns, represented by quantiles. The target drops the highest quantiles of
all critics together, which controls overestimation.
Source: Kuznetsov et al. (2020), arXiv:2005.04269.
"""

from functools import partial

import jax
import jax.numpy as jnp

from purerl.algos.redq import DelayedConfig, ensemble_agent
from purerl.algos.sac import SquashedActorCritic
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional.distributional import quantile_huber
from purerl.networks.critics import critics
from purerl.networks.modules import Module
from purerl.networks.squashed_policy import squashed_policy
from purerl.optim.optimizers import Optimizer, adam_by_plan
from purerl.replay.uniform import Replay
from purerl.types import Algorithm, Array, EnvironmentSpec, number, pytree, static


@pytree
class TQCConfig(DelayedConfig):
    """Settings of TQC."""

    num_critics: int = static(default=5, doc="number of critics, whose quantiles are pooled", at_least=1)
    num_quantiles: int = static(default=25, doc="quantiles per critic", at_least=1)
    num_dropped: int = static(default=2, doc="highest quantiles dropped from the target, per critic", at_least=0)
    kappa: float = number(default=1.0, doc="error above which the loss is linear", above=0)


def tqc(
    spec: EnvironmentSpec,
    config: TQCConfig,
    *,
    optimizer: Optimizer = partial(adam_by_plan, eps=1e-8),
    network: Module | None = None,
    replay: Replay | None = None,
) -> Algorithm:
    r"""Return TQC.

        critics: mean_ij |tau_i - 1{u_ij < 0}| H(u_ij),  u_ij = scale r + discount (z_j - temperature log pi) - theta_i
        policy:  -E(mean_i theta_i(s, a) - temperature log pi(a|s))

    with theta the quantiles of a critic, and z the lowest (num_quantiles - num_dropped) x num_critics quantiles of all
    target networks at (s', a'); tau_i = (i + 1/2) / num_quantiles, and H is Huber's function.

    Args:
      spec: the environment's spaces, with a Box of actions with finite bounds.
      config: the settings.
      optimizer: for actor and critics each: an optax optimizer such as `optax.lion`, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], below the policy's
        head; each critic has its own copy, followed by `hidden_sizes` on its features and the action.
      replay: a replay; by default a uniform one.

    Raises:
      InputError: if the settings contradict one another or the actions are not such a box.
    """
    validate(config, "tqc")
    if config.num_dropped >= config.num_quantiles:
        raise InputError(f"tqc: num_dropped {config.num_dropped} leaves none of num_quantiles {config.num_quantiles}")
    policy = squashed_policy(spec, config, network, "tqc")
    kept = (config.num_quantiles - config.num_dropped) * config.num_critics
    quantiles = critics(
        spec.observation_space,
        policy.box.size,
        config,
        num=config.num_critics,
        network=network,
        outputs=config.num_quantiles,
    )

    def compare(outputs: Array, target: Array) -> tuple[Array, Array]:
        of_critics = jax.vmap(lambda quantiles: quantile_huber(quantiles, target, config.kappa))(outputs)
        loss = jnp.sum(of_critics, axis=0) / float(config.num_quantiles)
        return loss, jnp.mean(jnp.abs(jnp.mean(target, axis=-1) - jnp.mean(outputs, axis=-1)), axis=0)

    net = SquashedActorCritic(
        policy=policy,
        critics=quantiles,
        next_values=lambda outputs, key: lowest(outputs, kept),
        compare=compare,
        value=lambda outputs: jnp.mean(outputs, axis=(0, -1)),
    )
    return ensemble_agent(spec, config, net, optimizer, replay)


def lowest(quantiles: Array, number: int) -> Array:
    """Return the `number` lowest of all critics' quantiles f32[num, N, n], in ascending order, f32[N, number]."""
    pooled = jnp.moveaxis(quantiles, 0, 1).reshape(quantiles.shape[1], -1)
    return jnp.sort(pooled, axis=-1)[:, :number]
