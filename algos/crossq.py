"""CrossQ: soft actor-critic with batch normalization in place of target networks. `purerl train crossq Pendulum-v1`.

The critics see a step and its successor in one batch, so that both are normalized alike; then they learn quickly
without a target network, and one gradient step per step of the environment is enough.
Source: Bhatt et al. (2024), arXiv:1902.05605. Here the policy has no normalization.
"""

from functools import partial

import jax
import jax.numpy as jnp

from purerl.algo_parts.actor_critic_replay import ActorCriticReplayConfig, random_at_first
from purerl.algo_parts.off_policy import (
    OffPolicyAgent,
    learn_from_replay,
    new_agent,
    new_statistics,
    uniform_replay,
)
from purerl.algo_parts.soft_actor_critic import improve_actor, new_actor, squashed_policy
from purerl.fields import validate
from purerl.functional.normalize import normalized
from purerl.networks.batch_norm import normed_critics
from purerl.networks.modules import Module
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class CrossQConfig(ActorCriticReplayConfig):
    """Settings of CrossQ."""

    critic_hidden_sizes: tuple[int, ...] = static(
        default=(1024, 1024), doc="units of the critics' hidden layers", at_least=1
    )
    learning_rate: float = number(default=1e-3, doc="Adam's step size, of all parts", above=0)
    tau: float = number(default=0.01, doc="the running statistics' step towards a batch's", above=0, at_most=1)
    policy_period: int = number(default=3, doc="gradient steps of the critics per one of the policy", at_least=1)
    initial_temperature: float = number(default=1.0, doc="weight of the entropy at first", above=0)
    target_entropy: float | None = number(default=None, doc="nats; none: minus the number of actions")


def crossq(
    spec: EnvironmentSpec,
    config: CrossQConfig,
    *,
    optimizer: Optimizer = partial(adam_by_plan, eps=1e-8, b1=0.5),
    network: Module | None = None,
    replay: Replay | None = None,
) -> Algorithm:
    r"""Return CrossQ.

        critics: (Q_i(s, a) - sg[scale r + discount (min_j Q_j(s', a') - temperature log pi(a'|s'))])^2 / 2,
                 Q(s, a) and Q(s', a') of one batch
        policy:  -E(min_i Q_i(s, a) - temperature log pi(a|s)), every policy_period-th step, by running statistics
        temperature: log(temperature) (entropy - target_entropy), with the policy

    The agent's `target_params` are the running statistics. With `n_step` above 1, r is the sum of n rewards alone.

    Args:
      spec: the environment's spaces: actions are a Box with finite bounds.
      config: the settings.
      optimizer: of either part: of optax, such as `optax.lion`, or `GradientPlan` -> transformation; Adam if none is
        given.
      network: a module (observation [N, ...]) -> features f32[N, n], of flax linen, or of NNX, below the policy's head.
      replay: a uniform one if none is given.

    Raises:
      InputError: if a setting is out of range or the actions are not such a box.
    """
    validate(config, "crossq")
    policy = squashed_policy(spec, config, network, "crossq")
    critics = normed_critics(spec.observation_space, policy.box.size, config, config.critic_hidden_sizes, 2)
    buffer = replay or uniform_replay(spec, config)
    descent = optimizer_of(config, config.num_gradient_steps, optimizer)  # of either part

    def init(key: Key) -> OffPolicyAgent:
        keys = jax.random.split(key, 3)
        actor = new_actor(policy, config, keys[0], keys[1])
        params, statistics = critics.init(keys[2])
        start = descent(jnp.int32(0)).init
        opt_state = {"actor": start(actor), "critics": start(params)}
        return new_agent(actor | {"critics": params}, statistics, opt_state, buffer, new_statistics(spec, config))

    def act(agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        action = policy.act(agent.params, key, normalized(agent.observation_statistics, observation), explore)
        if explore:
            action = random_at_first(spec.action_space, config, agent, key, observation, action)
        return action, carry, ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        return learn_from_replay(agent, key, rollout, buffer, gradient_step, config)

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        step, (key_critics, key_actor) = descent(agent.num_updates), jax.random.split(key)
        gradient, (error, statistics, critic_term) = jax.grad(critic_loss, has_aux=True)(
            agent.params["critics"], agent.params, agent.target_params, batch, key_critics
        )
        networks, critics_opt = apply_gradients(step, gradient, agent.opt_state["critics"], agent.params["critics"])

        value = lambda observation, action: jnp.min(critics.apply(networks, statistics, observation, action), axis=0)
        actor, actor_opt, metrics = improve_actor(agent, policy, config, step, value, batch, key_actor)
        agent = agent._replace(
            params=actor | {"critics": networks},
            target_params=statistics,
            opt_state={"actor": actor_opt, "critics": critics_opt},
        )
        return agent, error, {"critic_loss": critic_term} | metrics

    def critic_loss(params: PyTree, agent_params: PyTree, statistics: PyTree, batch: Transitions, key: Key):
        following = policy.distribution(agent_params["actor"], batch.next_observation)
        draw = following.sample(seed=key)
        both = lambda first, second: jax.tree.map(lambda x, y: jnp.concatenate([x, y]), first, second)
        observation = both(batch.observation, batch.next_observation)
        action = both(policy.box.to_unit(batch.action), jnp.tanh(draw))
        counted = both(batch.weight > 0, batch.weight > 0)
        values, statistics = critics.train(params, statistics, observation, action, config.tau, counted)
        value, next_value = jnp.split(values, 2, axis=1)
        soft = jnp.min(next_value, axis=0) - jnp.exp(agent_params["log_temperature"]) * following.log_prob(draw)
        target = jax.lax.stop_gradient(config.reward_scale * batch.reward + batch.discount * soft)
        error = value - target
        loss = 0.5 * jnp.mean(batch.weight * jnp.sum(error**2, axis=0))
        return loss, (jnp.mean(jnp.abs(error), axis=0), statistics, loss)

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)
