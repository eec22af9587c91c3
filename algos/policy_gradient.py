"""The shared part of PPO, A2C, IMPALA and V-MPO: settings, the new agent, preprocessing, and value estimates.

A rollout is preprocessed before an update learns from it: observations and rewards are normalized by running
statistics, and curiosity adds its bonus to the rewards. All three are off by default.
"""

from functools import partial

import jax
import jax.numpy as jnp

from purerl.algos.curiosity import CURIOSITIES, new_curiosity, with_bonus
from purerl.functional.normalize import ReturnScale, RunningStatistics, normalized
from purerl.functional.returns import successor_values
from purerl.networks.actor_critic import ActorCritic, ActorCriticConfig, PolicyAgent
from purerl.optim.optimizers import ScheduledOptimizer
from purerl.optim.schedules import Schedule, schedule
from purerl.types import EnvironmentSpec, Key, Likelihood, PyTree, Rollout, Values, number, pytree, static


@pytree
class PolicyConfig(ActorCriticConfig):
    """Settings of a policy-gradient algorithm."""

    learning_rate: float = number(default=2.5e-4, doc="learning rate of the optimizer", above=0)
    learning_rate_schedule: Schedule = schedule("linear")
    gae_lambda: float = number(default=0.95, doc="lambda of generalized advantage estimation", at_least=0, at_most=1)
    entropy_coefficient: float = number(default=0.01, doc="weight of the entropy bonus", at_least=0)
    entropy_coefficient_schedule: Schedule = schedule()
    value_coefficient: float = number(default=0.5, doc="weight of the value loss", at_least=0)
    max_grad_norm: float = number(default=0.5, doc="global norm that gradients are clipped to", above=0)
    normalize_observation: bool = static(
        default=False, doc="standardize float and byte observations by running statistics"
    )
    normalize_reward: bool = static(default=False, doc="divide rewards by the running standard deviation of returns")
    squash_actions: bool = static(default=False, doc="squash continuous actions by tanh instead of clipping them")
    curiosity: str = static(
        default="none", doc="bonus for observations that cannot be predicted yet", choices=("none", *CURIOSITIES)
    )
    curiosity_coefficient: float = number(
        default=0.1, doc="weight of the curiosity bonus (RND's paper: two advantages, weighted 1 to 2)", at_least=0
    )
    curiosity_learning_rate: float = number(
        default=1e-3, doc="learning rate of the predictor network, by Adam (RND's paper: 1e-4)", above=0
    )

    def new_value_statistics(self) -> RunningStatistics | None:
        """Return the statistics that scale the critic's predictions; None: predictions are in units of the reward."""
        return None


def new_agent(
    key: Key, params: PyTree, optimizer: ScheduledOptimizer, spec: EnvironmentSpec, config: PolicyConfig
) -> PolicyAgent:
    """Return an agent before its first rollout, with the statistics and the curiosity that the config requests.

    Args:
      key: the agent's key, from which its parameters were initialized.
      params: the parameters of its networks.
      optimizer: their optimizer.
      spec: the environment's spaces.
      config: the settings.
    """
    curiosity = None
    if config.curiosity != "none":
        curiosity = new_curiosity(jax.random.fold_in(key, 1), spec, config, config.curiosity, config.num_envs)
    statistics = RunningStatistics.create(spec.observation_space.struct) if config.normalize_observation else None
    return PolicyAgent(
        params=params,
        opt_state=optimizer.init(params),
        num_updates=jnp.int32(0),
        observation_statistics=statistics,
        return_scale=ReturnScale.create(config.num_envs) if config.normalize_reward else None,
        value_statistics=config.new_value_statistics(),
        curiosity=curiosity,
    )


def preprocess(
    agent: PolicyAgent, rollout: Rollout, spec: EnvironmentSpec, config: PolicyConfig
) -> tuple[PolicyAgent, Rollout]:
    """Return (the agent with the rollout added to its statistics, the rollout to learn from).

    Observations are normalized by the statistics that they were acted on with, rewards by the new ones; the bonus of
    curiosity is added after that.
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
            kind=config.curiosity,
            coefficient=config.curiosity_coefficient,
            learning_rate=config.curiosity_learning_rate,
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


def likelihood(net: ActorCritic, agent: PolicyAgent, rollout: Rollout) -> Likelihood:
    """Return the log-probabilities and entropies of an agent's policy in a rollout: `Algorithm.likelihood`."""
    observation = agent.normalize(rollout.observation)
    policy, _, _ = net.unroll(agent.params, rollout.carry, observation, rollout.done)
    return Likelihood(log_prob=policy.log_prob(rollout.extras["raw_action"]), entropy=policy.entropy())


def estimate_values(net: ActorCritic, agent: PolicyAgent, rollout: Rollout) -> Values:
    """Return the critic's estimates for a rollout: `Algorithm.values`.

    Args:
      net: the agent's networks.
      agent: an agent with parameters of `net`.
      rollout: [T, B], as the loop collected it.
    """
    observation, next_observation = map(agent.normalize, (rollout.observation, rollout.next_observation))
    _, value, carry = net.unroll(agent.params, rollout.carry, observation, rollout.done)
    rollout = rollout._replace(next_observation=next_observation)
    next_value = successor_values(partial(net.value, agent.params), value, carry, rollout)
    scale = agent.return_scale
    return Values(
        value=agent.in_reward_units(value),
        next_value=agent.in_reward_units(next_value),
        reward=rollout.reward if scale is None else scale.normalize(rollout.reward),
        scale=(lambda x: x) if scale is None else partial(scale.normalize, limit=jnp.inf),
    )
