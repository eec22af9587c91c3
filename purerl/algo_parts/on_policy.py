"""What agents with a policy and a value function share: their state, acting, and normalized rollouts."""

from collections.abc import Callable
from typing import NamedTuple

import optax

from purerl.functional import masked, normalize
from purerl.functional.distributions import ActionHead, action_head
from purerl.functional.normalize import RewardScale, RunningStatistics
from purerl.networks.actor_critic import ActorCritic, ActorCriticConfig, actor_critic
from purerl.spaces import Space
from purerl.types import Array, EnvironmentSpec, Key, PyTree, Rollout, number, pytree, static


@pytree
class PolicyConfig(ActorCriticConfig):
    """What the configs of policy-gradient algorithms share."""

    learning_rate: float = number(default=2.5e-4, doc="the optimizer's step size", above=0)
    anneal_learning_rate: bool = static(default=True, doc="lower it linearly to 0 over total_timesteps")
    gae_lambda: float = number(default=0.95, doc="mixing of generalized advantage estimation", at_least=0, at_most=1)
    entropy_coefficient: float = number(default=0.01, doc="weight of the entropy bonus", at_least=0)
    value_coefficient: float = number(default=0.5, doc="weight of the value loss", at_least=0)
    max_grad_norm: float = number(default=0.5, doc="global norm that gradients are clipped to", above=0)
    normalize_observation: bool = static(default=False, doc="standardize observations by running statistics")
    normalize_reward: bool = static(default=False, doc="divide rewards by the running spread of returns")
    centralized_critic: bool = static(
        default=False, doc="of several agents: the value function sees the environment's global state"
    )
    squash_actions: bool = static(default=False, doc="continuous actions through tanh instead of clipped")


class PolicyAgent(NamedTuple):
    """All that such an agent knows."""

    params: PyTree
    opt_state: PyTree
    observation_statistics: RunningStatistics | None
    reward_scale: RewardScale | None


NetworkFactory = Callable[[Space, ActionHead, ActorCriticConfig], ActorCritic]


class PolicyAgency(NamedTuple):
    """How such an agent begins, acts and sees a rollout."""

    network: ActorCritic
    init: Callable[[Key], PolicyAgent]
    act: Callable[..., tuple[PyTree, PyTree, PyTree]]  # as in `Algorithm`; extras hold "raw_action" and "log_prob"
    prepare: Callable[[PolicyAgent, Rollout], tuple[PolicyAgent, Rollout]]
    # adds the rollout to the agent's statistics and returns it normalized by those it was collected under


def policy_agency(
    spec: EnvironmentSpec,
    config: PolicyConfig,
    optimizer: optax.GradientTransformation,
    network: NetworkFactory = actor_critic,
) -> PolicyAgency:
    """Return the shared parts for an environment's spaces.

    Raises:
      InputError: if there is no distribution for the action space.
    """
    head = action_head(spec.action_space, config.squash_actions)
    net = network(spec.observation_space, head, config)

    def init(key: Key) -> PolicyAgent:
        params = net.init(key)
        return PolicyAgent(
            params,
            optimizer.init(params),
            normalize.observation_statistics(spec.observation_space, config.normalize_observation),
            RewardScale.create(config.num_envs) if config.normalize_reward else None,
        )

    def act(
        agent: PolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool
    ) -> tuple[PyTree, PyTree, PyTree]:
        observation = normalize.identity_or(agent.observation_statistics, observation)
        policy, carry = net.policy(agent.params, carry, observation)
        if not explore:
            return head.to_action(policy.mode()), carry, ()
        raw_action = policy.sample(seed=key)
        return head.to_action(raw_action), carry, {"raw_action": raw_action, "log_prob": policy.log_prob(raw_action)}

    def prepare(agent: PolicyAgent, rollout: Rollout) -> tuple[PolicyAgent, Rollout]:
        statistics, scale, reward = agent.observation_statistics, agent.reward_scale, rollout.reward
        if scale is not None:
            scale = scale.update(reward, rollout.done, config.discount, rollout.mask)
            reward = scale.normalize(reward)
        seen = rollout._replace(
            observation=normalize.identity_or(statistics, rollout.observation),
            next_observation=normalize.identity_or(statistics, rollout.next_observation),
            reward=reward,
        )
        if statistics is not None:
            statistics = statistics.update(rollout.observation, rollout.mask)
        return agent._replace(observation_statistics=statistics, reward_scale=scale), seen

    return PolicyAgency(net, init, act, prepare)


def explained_variance(value: Array, target: Array, mask: Array | None = None) -> Array:
    """Return f32[]: 1 - Var(target - value) / Var(target), 1 for a perfect value function and 0 for a constant one."""
    return 1.0 - masked.variance(target - value, mask) / (masked.variance(target, mask) + 1e-8)
