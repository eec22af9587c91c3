"""IMPALA: actor-critic for stale rollouts. `purerl train impala CartPole-v1`.

Rollouts may come from an older policy: actors that run ahead of the learner, or several gradient steps on one rollout.
V-trace corrects for the difference.
Source: Espeholt et al. (2018), arXiv:1802.01561.
"""

from functools import partial

import jax
import jax.numpy as jnp

from purerl.algos.policy_gradient import PolicyConfig, estimate_values, new_agent, preprocess
from purerl.algos.ppo import act
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.returns import successor_values
from purerl.functional.vtrace import vtrace
from purerl.networks.actor_critic import Network, PolicyAgent, actor_critic, networks_for
from purerl.optim.minibatch import check_minibatches, minibatch_epochs
from purerl.optim.optimizers import Optimizer, optimizer_of, rmsprop_by_plan
from purerl.optim.schedules import scheduled
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class IMPALAConfig(PolicyConfig):
    """Settings of IMPALA."""

    num_envs: int = 32
    rollout_length: int = 20
    learning_rate: float = number(
        default=6e-4, doc="learning rate of RMSProp, with epsilon 1e-5 (paper: 6e-4, 0.1)", above=0
    )
    max_grad_norm: float = number(
        default=0.5,
        doc="global norm that gradients are clipped to (paper: 40, for losses summed over a batch)",
        above=0,
    )
    gae_lambda: float = number(default=1.0, doc="lambda of V-trace", at_least=0, at_most=1)
    num_epochs: int = static(default=1, doc="passes over each rollout", at_least=1)
    num_minibatches: int = static(default=4, doc="gradient steps per pass; must divide num_envs", at_least=1)
    rho_clip: float = number(default=1.0, doc="largest importance weight of a step", above=0)
    c_clip: float = number(default=1.0, doc="largest importance weight in a trace", above=0)

    @property
    def samples_per_gradient(self) -> int:
        """Environment steps in a minibatch."""
        return self.steps_per_update // self.num_minibatches


def impala(
    spec: EnvironmentSpec,
    config: IMPALAConfig,
    *,
    optimizer: Optimizer = rmsprop_by_plan,
    network: Network = actor_critic,
) -> Algorithm:
    """Return IMPALA for an environment with discrete, multi-discrete, continuous or dict actions.

    Minibatches consist of complete sequences, one per environment.

    Args:
      spec: the environment's spaces.
      config: the settings.
      optimizer: an optax optimizer such as `optax.lion`, applied to clipped gradients, or a function `GradientPlan` ->
        optax transformation; RMSProp by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], to which heads are
        added, or a function (observation space, action head, config) -> the policy and the value function.

    Raises:
      InputError: if the settings contradict one another or the action space has no distribution.
    """
    validate(config, "impala")
    check_minibatches(config, True, "impala")
    head, net = networks_for(spec, config, network, squash=config.squash_actions)
    optimizer_at = optimizer_of(config, config.num_epochs * config.num_minibatches, optimizer)

    def init(key: Key) -> PolicyAgent:
        return new_agent(key, net.init(key), optimizer_at, spec, config)

    def update(agent: PolicyAgent, key: Key, rollout: Rollout) -> tuple[PolicyAgent, Metrics]:
        agent, rollout = preprocess(agent, rollout, spec, config)
        params, opt_state, metrics = minibatch_epochs(
            partial(loss, scheduled(config, agent.num_updates)),
            optimizer=optimizer_at(agent.num_updates),
            params=agent.params,
            opt_state=agent.opt_state,
            batch=rollout._replace(carry=()),
            carry=rollout.carry,
            key=key,
            config=config,
            sequences=True,
        )
        return agent.stepped(params, opt_state), metrics

    def loss(now: IMPALAConfig, params: PyTree, rollout: Rollout, carry: PyTree) -> tuple[Array, Metrics]:
        policy, value, after = net.unroll(params, carry, rollout.observation, rollout.done)
        next_value = successor_values(partial(net.value, params), value, after, rollout)
        log_prob = policy.log_prob(rollout.extras["raw_action"])
        log_ratio = jax.lax.stop_gradient(log_prob - rollout.extras["log_prob"])
        sg_value = jax.lax.stop_gradient(value)
        target, advantage = vtrace(
            log_ratio,
            rollout.reward,
            sg_value,
            next_value,
            terminated=rollout.terminated,
            done=rollout.done,
            discount=config.discount,
            trace_lambda=config.gae_lambda,
            rho_clip=config.rho_clip,
            c_clip=config.c_clip,
        )
        policy_loss = -masked.mean(log_prob * advantage, rollout.mask)
        value_loss = 0.5 * masked.mean((value - target) ** 2, rollout.mask)
        entropy = masked.mean(policy.entropy(), rollout.mask)
        metrics = {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "mean_rho": masked.mean(jnp.minimum(jnp.exp(log_ratio), config.rho_clip), rollout.mask),
            "explained_variance": masked.explained_variance(sg_value, target, rollout.mask),
        }
        return policy_loss + now.value_coefficient * value_loss - now.entropy_coefficient * entropy, metrics

    return Algorithm(
        init=init,
        initial_carry=net.initial_carry,
        act=partial(act, net, head),
        update=update,
        values=partial(estimate_values, net),
    )
