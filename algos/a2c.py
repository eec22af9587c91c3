"""A2C and REINFORCE. `purerl train a2c CartPole-v1`, `purerl train reinforce CartPole-v1`.

A2C, advantage actor-critic: collect a short rollout from many environments, then take one policy-gradient step on all
of it. REINFORCE with a baseline: the same of a long rollout, whose returns go to the end of the episode.
Source: Mnih et al. (2016), arXiv:1602.01783, in its synchronous form, with RMSProp as there; Williams (1992),
doi:10.1007/BF00992696.
"""

from functools import partial

import jax
import jax.numpy as jnp

from purerl.algo_parts.on_policy import PolicyAgent, PolicyConfig, policy_functions, ready_to_learn, values_of
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.counters import increment
from purerl.functional.objectives import ActorCriticLoss, Loss, PolicyGradient, Samples, mean_loss
from purerl.functional.returns import gae, successor_values
from purerl.networks.actor_critic import NetworkFactory, actor_critic
from purerl.networks.modules import Module
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of, rmsprop_by_plan
from purerl.optim.schedules import scheduled
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static
from purerl.xla.accumulation import rollout_gradient


@pytree
class A2CConfig(PolicyConfig):
    """Settings of A2C."""

    num_envs: int = static(default=16, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=5, doc="steps of each environment per update", at_least=1)
    learning_rate: float = number(default=7e-4, doc="RMSProp's step size", above=0)
    gae_lambda: float = number(default=1.0, doc="1: n-step returns; below: GAE", at_least=0, at_most=1)


@pytree
class ReinforceConfig(A2CConfig):
    """Settings of REINFORCE."""

    rollout_length: int = static(default=128, doc="steps of each environment per update", at_least=1)
    learning_rate: float = number(default=3e-3, doc="Adam's step size", above=0)
    gae_lambda: float = number(default=1.0, doc="1: whole returns; below: GAE", at_least=0, at_most=1)


def a2c(
    spec: EnvironmentSpec,
    config: A2CConfig,
    *,
    loss: Loss | None = None,
    optimizer: Optimizer = rmsprop_by_plan,
    network: NetworkFactory | Module = actor_critic,
) -> Algorithm:
    """Return A2C for an environment with discrete, multi-discrete, continuous or dict actions.

    The loss is the mean over the rollout of -log pi(a|s) A + value_coefficient (V(s) - R)^2 / 2 - entropy bonus,
    or of the `loss` per sample if one is given.

    Args:
      spec: the environment's spaces.
      config: the settings.
      loss: per sample, in place of the above.
      optimizer: of optax, such as `optax.lion`, behind a clip of the norm, or `GradientPlan` -> transformation; RMSProp
        if none is given.
      network: a module (observation [N, ...]) -> features f32[N, n] below the heads, of flax linen, or of NNX; or
        (observation space, action head, config) -> the policy and the value function.

    Raises:
      InputError: if a setting is out of range or the action space has no distribution.
    """
    validate(config, "a2c")
    descent = optimizer_of(config, 1, optimizer)
    net, init, act = policy_functions(spec, config, descent(jnp.int32(0)), network)

    def update(agent: PolicyAgent, key: Key, rollout: Rollout) -> tuple[PolicyAgent, Metrics]:
        agent, rollout = ready_to_learn(agent, rollout, spec, config)
        gradient, metrics, (value, target) = rollout_gradient(
            partial(total_loss, scheduled(config, agent.num_updates)), agent.params, rollout
        )
        metrics = metrics | {"explained_variance": masked.explained_variance(value, target, rollout.mask)}
        params, opt_state = apply_gradients(descent(agent.num_updates), gradient, agent.opt_state, agent.params)
        num_updates = increment(agent.num_updates)
        return agent._replace(params=params, opt_state=opt_state, num_updates=num_updates), metrics

    def total_loss(now: A2CConfig, params: PyTree, rollout: Rollout) -> tuple[Array, tuple[Metrics, tuple]]:
        policy, value, carry = net.unroll(params, rollout.carry, rollout.observation, rollout.done)
        old_value = jax.lax.stop_gradient(value)
        next_value = successor_values(partial(net.value, params), value, carry, rollout)
        advantage = gae(
            rollout.reward, old_value, next_value, rollout.terminated, rollout.done, config.discount, config.gae_lambda
        )
        log_prob, target = policy.log_prob(rollout.extras["raw_action"]), old_value + advantage
        samples = Samples(
            log_ratio=log_prob - rollout.extras["log_prob"],
            log_prob=log_prob,
            value=value,
            entropy=policy.entropy(),
            advantage=advantage,
            old_value=old_value,
            target=target,
        )
        samples, mask = jax.tree.map(jnp.ravel, (samples, rollout.mask))
        weights = {"value_coefficient": now.value_coefficient, "entropy_coefficient": now.entropy_coefficient}
        sample_loss = ActorCriticLoss(objective=PolicyGradient(), **weights) if loss is None else loss
        total, metrics = mean_loss(sample_loss, samples, {"config": now}, mask)
        return total, (metrics, (old_value, target))

    return Algorithm(init=init, initial_carry=net.initial_carry, act=act, update=update, values=partial(values_of, net))


def reinforce(
    spec: EnvironmentSpec,
    config: ReinforceConfig,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: NetworkFactory | Module = actor_critic,
) -> Algorithm:
    """Return REINFORCE with the value function as its baseline: A2C on whole returns, by Adam.

    An episode that a rollout cuts counts up to there, and the value stands for the rest.
    """
    validate(config, "reinforce")
    return a2c(spec, config, optimizer=optimizer, network=network)
