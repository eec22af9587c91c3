"""A2C and REINFORCE. `purerl train a2c CartPole-v1`, `purerl train reinforce CartPole-v1`.

A2C, advantage actor-critic: collect a short rollout from many environments, then take one policy-gradient step on all
of it. REINFORCE with a baseline does the same with a long rollout, whose returns reach the end of the episode.
Source: Mnih et al. (2016), arXiv:1602.01783, in its synchronous form, with RMSProp as in the paper; Williams (1992),
doi:10.1007/BF00992696.
"""

from functools import partial

import jax
import jax.numpy as jnp

from purerl.algos.policy_gradient import PolicyConfig, estimate_values, likelihood, new_agent, preprocess
from purerl.algos.ppo import act
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.objectives import ActorCriticLoss, Loss, PolicyGradient, Samples, mean_loss
from purerl.functional.returns import gae, successor_values
from purerl.networks.actor_critic import Network, PolicyAgent, actor_critic, networks_for
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of, rmsprop_by_plan
from purerl.optim.schedules import scheduled
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree
from purerl.xla.accumulation import rollout_gradient


@pytree
class A2CConfig(PolicyConfig):
    """Settings of A2C."""

    num_envs: int = 16
    rollout_length: int = 5
    learning_rate: float = number(default=7e-4, doc="learning rate of RMSProp", above=0)
    gae_lambda: float = number(default=1.0, doc="GAE lambda; 1: n-step returns", at_least=0, at_most=1)


@pytree
class ReinforceConfig(A2CConfig):
    """Settings of REINFORCE."""

    rollout_length: int = 128
    learning_rate: float = number(default=3e-3, doc="learning rate of Adam", above=0)
    gae_lambda: float = number(default=1.0, doc="GAE lambda; 1: complete returns", at_least=0, at_most=1)


def a2c(
    spec: EnvironmentSpec,
    config: A2CConfig,
    *,
    loss: Loss | None = None,
    optimizer: Optimizer = rmsprop_by_plan,
    network: Network = actor_critic,
) -> Algorithm:
    """Return A2C for an environment with discrete, multi-discrete, continuous or dict actions.

    The loss is the mean over the rollout of -log pi(a|s) A + value_coefficient (V(s) - R)^2 / 2 - entropy bonus,
    or of the `loss` per sample if one is given.

    Args:
      spec: the environment's spaces.
      config: the settings.
      loss: the loss per sample, instead of the one above.
      optimizer: an optax optimizer such as `optax.lion`, applied to clipped gradients, or a function `GradientPlan` ->
        optax transformation; RMSProp by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], to which heads are
        added, or a function (observation space, action head, config) -> the policy and the value function.

    Raises:
      InputError: if a setting is out of range or the action space has no distribution.
    """
    validate(config, "a2c")
    head, net = networks_for(spec, config, network, squash=config.squash_actions)
    optimizer_at = optimizer_of(config, 1, optimizer)

    def init(key: Key) -> PolicyAgent:
        return new_agent(key, net.init(key), optimizer_at, spec, config)

    def update(agent: PolicyAgent, key: Key, rollout: Rollout) -> tuple[PolicyAgent, Metrics]:
        agent, rollout = preprocess(agent, rollout, spec, config)
        gradient, metrics, (value, target) = rollout_gradient(
            partial(total_loss, scheduled(config, agent.num_updates)), agent.params, rollout
        )
        metrics = metrics | {"explained_variance": masked.explained_variance(value, target, rollout.mask)}
        params, opt_state = apply_gradients(optimizer_at(agent.num_updates), gradient, agent.opt_state, agent.params)
        return agent.stepped(params, opt_state), metrics

    def total_loss(now: A2CConfig, params: PyTree, rollout: Rollout) -> tuple[Array, tuple[Metrics, tuple]]:
        policy, value, carry = net.unroll(params, rollout.carry, rollout.observation, rollout.done)
        old_value = jax.lax.stop_gradient(value)
        next_value = successor_values(partial(net.value, params), value, carry, rollout)
        advantage = gae(
            rollout.reward,
            old_value,
            next_value,
            terminated=rollout.terminated,
            done=rollout.done,
            discount=config.discount,
            gae_lambda=config.gae_lambda,
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

    return Algorithm(
        init=init,
        initial_carry=net.initial_carry,
        act=partial(act, net, head),
        update=update,
        values=partial(estimate_values, net),
        likelihood=partial(likelihood, net),
    )


def reinforce(
    spec: EnvironmentSpec,
    config: ReinforceConfig,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: Network = actor_critic,
) -> Algorithm:
    """Return REINFORCE with a value baseline: A2C on Monte Carlo returns, optimized by Adam.

    If a rollout ends within an episode, the value of the last state replaces the rest of its return.
    """
    validate(config, "reinforce")
    return a2c(spec, config, optimizer=optimizer, network=network)
