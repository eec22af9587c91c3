"""PPO with an adaptive KL penalty instead of the clip. `purerl train ppo-penalty CartPole-v1`.

The policy's divergence from the one that acted is a part of the loss. After each update its weight doubles if the
divergence was well above its target, and halves if it was well below.
Source: Schulman et al. (2017), arXiv:1707.06347, section 4.
"""

import jax.numpy as jnp

from purerl.algos.ppo import PPOConfig, ppo
from purerl.fields import validate
from purerl.functional.drifts import KLPenalty
from purerl.functional.objectives import Drifting
from purerl.networks.actor_critic import Network, PolicyAgent, actor_critic
from purerl.optim.optimizers import Optimizer, adam_by_plan
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, Values, number, pytree

BOUNDS = (2.0**-10, 2.0**10)  # bounds of the weight


@pytree
class PPOPenaltyConfig(PPOConfig):
    """Settings of PPO with a KL penalty; the clip settings only affect which ratios a metric counts."""

    kl_target: float = number(default=0.01, doc="target of the KL divergence per update, in nats", above=0)
    initial_kl_weight: float = number(default=1.0, doc="initial weight of the KL penalty", above=0)


def ppo_penalty(
    spec: EnvironmentSpec,
    config: PPOPenaltyConfig,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: Network = actor_critic,
) -> Algorithm:
    r"""Return PPO with a KL penalty for an environment with discrete, multi-discrete, continuous or dict actions.

        loss = -r A + c (r - 1 - log r) + c_v max((V - R)^2, (clip(V) - R)^2) / 2 - c_e H
        c <- 2 c if KL > 1.5 kl_target;  c / 2 if KL < kl_target / 1.5

    with r the ratio; r - 1 - log r estimates the divergence without bias, and KL is its mean over an update's steps.

    Args:
      spec: the environment's spaces.
      config: the settings.
      optimizer: an optax optimizer such as `optax.lion`, applied to clipped gradients, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], to which heads are
        added, or a function (observation space, action head, config) -> the policy and the value function.

    Raises:
      InputError: if the settings contradict one another or the action space has no distribution.
    """
    validate(config, "ppo-penalty")

    def penalized(weight: Array | float) -> Algorithm:
        drift = Drifting(drift=KLPenalty(coefficient=weight))
        return ppo(spec, config, objective=drift, optimizer=optimizer, network=network)

    base = penalized(1.0)

    def init(key: Key) -> PolicyAgent:
        agent = base.init(key)
        return _with(agent, agent.params, jnp.float32(config.initial_kl_weight))

    def act(agent: PolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        return base.act(agent._replace(params=agent.params["network"]), carry, key, observation, explore)

    def update(agent: PolicyAgent, key: Key, rollout: Rollout) -> tuple[PolicyAgent, Metrics]:
        weight = agent.params["kl_weight"]
        learned, metrics = penalized(weight).update(agent._replace(params=agent.params["network"]), key, rollout)
        adapted = adapt(weight, metrics["approx_kl"], config.kl_target)
        return _with(learned, learned.params, adapted), metrics | {"kl_weight": weight}

    def values(agent: PolicyAgent, rollout: Rollout) -> Values:
        assert base.values is not None
        return base.values(agent._replace(params=agent.params["network"]), rollout)

    return Algorithm(init=init, initial_carry=base.initial_carry, act=act, update=update, values=values)


def adapt(weight: Array, kl: Array, target: Array | float) -> Array:
    """Return the weight for the next update, f32[], from the divergence `kl` f32[] of the last one."""
    factor = jnp.where(kl > 1.5 * target, 2.0, jnp.where(kl < target / 1.5, 0.5, 1.0))
    return jnp.clip(weight * factor, *BOUNDS)


def _with(agent: PolicyAgent, params: PyTree, weight: Array) -> PolicyAgent:
    return agent._replace(params={"network": params, "kl_weight": weight})
