"""Parts that policy-gradient algorithms share: settings, the agent, acting, and what makes rollouts ready to learn."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from purerl.algo_parts.curiosity import CURIOSITIES, Curiosity, new_curiosity, with_bonus
from purerl.functional.distributions import action_head
from purerl.functional.normalize import ReturnScale, RunningStatistics, denormalized_values, normalized
from purerl.functional.returns import successor_values
from purerl.networks.actor_critic import ActorCritic, ActorCriticConfig, NetworkFactory, actor_critic, network_of
from purerl.networks.modules import Module
from purerl.optim.schedules import Schedule, schedule
from purerl.types import Array, EnvironmentSpec, Key, PyTree, Rollout, Values, number, pytree, static


@pytree
class PolicyConfig(ActorCriticConfig):
    """Settings of a policy-gradient algorithm."""

    learning_rate: float = number(default=2.5e-4, doc="the optimizer's step size", above=0)
    learning_rate_schedule: Schedule = schedule("linear")
    gae_lambda: float = number(default=0.95, doc="mixing of generalized advantage estimation", at_least=0, at_most=1)
    entropy_coefficient: float = number(default=0.01, doc="weight of the entropy bonus", at_least=0)
    entropy_coefficient_schedule: Schedule = schedule()
    value_coefficient: float = number(default=0.5, doc="weight of the value loss", at_least=0)
    max_grad_norm: float = number(default=0.5, doc="global norm that gradients are clipped to", above=0)
    normalize_observation: bool = static(default=False, doc="standardize observations by running statistics")
    normalize_reward: bool = static(default=False, doc="divide rewards by the running spread of returns")
    squash_actions: bool = static(default=False, doc="continuous actions through tanh instead of clipped")
    curiosity: str = static(
        default="none", doc="rewards for what cannot be predicted yet", choices=("none", *CURIOSITIES)
    )
    curiosity_coefficient: float = number(default=0.1, doc="weight of the rewards of curiosity", at_least=0)
    curiosity_learning_rate: float = number(default=1e-3, doc="Adam's step size, of what predicts", above=0)


class PolicyAgent(NamedTuple):
    """The state of such an agent."""

    params: PyTree
    opt_state: PyTree
    num_updates: Array  # i32[], so far; drives every schedule
    observation_statistics: RunningStatistics | None
    return_scale: ReturnScale | None
    value_statistics: RunningStatistics | None  # of the value's targets; the critic predicts in their units
    curiosity: Curiosity | None = None


class PolicyFunctions(NamedTuple):
    """The network of such an agent, and two of the functions of its `Algorithm`."""

    network: ActorCritic
    init: Callable[[Key], PolicyAgent]
    act: Callable[..., tuple[PyTree, PyTree, PyTree]]  # extras hold "raw_action" and "log_prob"


def policy_functions(
    spec: EnvironmentSpec,
    config: PolicyConfig,
    optimizer: optax.GradientTransformation,
    network: NetworkFactory | Module = actor_critic,
) -> PolicyFunctions:
    """Return the functions for an environment's spaces; PPO's file has the same in plain sight.

    Raises:
      InputError: if there is no distribution for the action space.
    """
    head = action_head(spec.action_space, config.squash_actions)
    net = network_of(network)(spec.observation_space, head, config)

    def init(key: Key) -> PolicyAgent:
        params = net.init(key)
        return new_agent(key, params, optimizer.init(params), spec, config)

    def act(
        agent: PolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool
    ) -> tuple[PyTree, PyTree, PyTree]:
        policy, carry = net.policy(agent.params, carry, normalized(agent.observation_statistics, observation))
        if not explore:
            return head.to_action(policy.mode()), carry, ()
        raw_action = policy.sample(seed=key)
        return head.to_action(raw_action), carry, {"raw_action": raw_action, "log_prob": policy.log_prob(raw_action)}

    return PolicyFunctions(network=net, init=init, act=act)


def new_agent(
    key: Key,
    params: PyTree,
    opt_state: PyTree,
    spec: EnvironmentSpec,
    config: PolicyConfig,
    normalize_value: bool = False,
) -> PolicyAgent:
    """Return an agent before its first rollout, with the running statistics and the curiosity that the config asks for.

    Args:
      key: of the agent, that its parameters were made with.
      params, opt_state: of its networks.
      spec: the environment's spaces.
      config: the settings.
      normalize_value: whether its critic predicts in units of the targets.
    """
    curiosity = None
    if config.curiosity != "none":
        curiosity = new_curiosity(jax.random.fold_in(key, 1), spec, config, config.curiosity, config.num_envs)
    statistics = RunningStatistics.create(spec.observation_space.struct) if config.normalize_observation else None
    return PolicyAgent(
        params=params,
        opt_state=opt_state,
        num_updates=jnp.int32(0),
        observation_statistics=statistics,
        return_scale=ReturnScale.create(config.num_envs) if config.normalize_reward else None,
        value_statistics=RunningStatistics.create(jax.ShapeDtypeStruct((), jnp.float32)) if normalize_value else None,
        curiosity=curiosity,
    )


def ready_to_learn(
    agent: PolicyAgent, rollout: Rollout, spec: EnvironmentSpec, config: PolicyConfig
) -> tuple[PolicyAgent, Rollout]:
    """Return (the agent with the rollout added to its statistics, the rollout normalized, with curiosity's rewards).

    Observations are normalized by the statistics that they were acted on with, rewards by the new ones; the rewards of
    curiosity are added after that.
    """
    statistics, scale, curiosity = agent.observation_statistics, agent.return_scale, agent.curiosity
    acted_by = statistics if rollout.statistics is None else rollout.statistics
    if scale is not None:
        scale = scale.update(rollout.reward, rollout.terminated | rollout.time_up, config.discount, rollout.mask)
        rollout = rollout._replace(reward=scale.normalize(rollout.reward))
    if curiosity is not None:
        curiosity, rollout = with_bonus(
            curiosity,
            rollout,
            spec,
            config,
            config.curiosity,
            config.curiosity_coefficient,
            config.curiosity_learning_rate,
        )
    raw = rollout.observation
    rollout = rollout._replace(
        observation=normalized(acted_by, rollout.observation),
        next_observation=normalized(acted_by, rollout.next_observation),
        statistics=None,
    )
    if statistics is not None:
        statistics = statistics.update(raw, rollout.mask)
    return agent._replace(observation_statistics=statistics, return_scale=scale, curiosity=curiosity), rollout


def values_of(net: ActorCritic, agent: PolicyAgent, rollout: Rollout) -> Values:
    """Return what an agent's critic estimates for a rollout: `Algorithm.values` of an agent whose params are `net`'s.

    Args:
      net: the agent's networks.
      agent: with their parameters.
      rollout: [T, B], as the loop collected it.
    """
    observation, next_observation = (
        normalized(agent.observation_statistics, x) for x in (rollout.observation, rollout.next_observation)
    )
    _, value, carry = net.unroll(agent.params, rollout.carry, observation, rollout.done)
    rollout = rollout._replace(next_observation=next_observation)
    next_value = successor_values(partial(net.value, agent.params), value, carry, rollout)
    value, next_value = (denormalized_values(agent.value_statistics, x) for x in (value, next_value))
    scale = agent.return_scale
    return Values(
        value=value,
        next_value=next_value,
        reward=rollout.reward if scale is None else scale.normalize(rollout.reward),
        scale=(lambda x: x) if scale is None else partial(scale.normalize, limit=jnp.inf),
    )
