"""SAC: soft actor-critic, with continuous or discrete actions. `purerl train sac Pendulum-v1`.

Maximize return plus the policy's entropy: two critics learn the soft value from replay, the policy follows the smaller
of them, and the temperature that weighs entropy is learned so that the entropy stays near a target.
Source: Haarnoja et al. (2018), arXiv:1801.01290 and arXiv:1812.05905; discrete: Christodoulou (2019), arXiv:1910.07207.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.algo_parts.off_policy import OffPolicyAgent, begin_agent, learner, move_towards, step_size, uniform_replay
from purerl.algo_parts.optimizers import adam, descend
from purerl.fields import validate
from purerl.functional.distributions import Categorical, Normal, SquashedNormal
from purerl.networks.critics import CriticsConfig, critics, unit_box
from purerl.networks.encoder import body
from purerl.networks.q_networks import q_network
from purerl.networks.torsos import apply, dense, mask_illegal, split_mask
from purerl.networks.torsos import init as init_module
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Discrete
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, number, pytree


@pytree
class SACConfig(CriticsConfig):
    """Settings of SAC."""

    initial_temperature: float = number(default=1.0, doc="weight of the entropy at first", above=0)
    target_entropy: float | None = number(default=None, doc="nats; none: minus the number of actions, or .9 log n")


class Actor(NamedTuple):
    """What differs between continuous and discrete actions."""

    init: Callable[[Key], PyTree]  # key -> {"actor": ..., "critics": ...}
    act: Callable[[PyTree, Key, PyTree, bool], Array]  # (params, key, observation[B], explore) -> action[B]
    soft_value: Callable[[PyTree, PyTree, Key, PyTree, Array], tuple[Array, Array]]
    # (actor params, critic params, key, observation[N], temperature) -> (E min Q - temperature log pi, entropy) f32[N]
    taken: Callable[[PyTree, PyTree, Array], Array]  # (critic params, observation[N], action[N]) -> Q f32[num, N]
    target_entropy: float


def sac(spec: EnvironmentSpec, config: SACConfig, *, replay: Replay | None = None) -> Algorithm:
    r"""Return SAC.

        critics: (Q_i(s, a) - [r + discount E(min_j Q'_j(s', a') - temperature log pi(a'|s'))])^2 / 2
        actor:   -E(min_i Q_i(s, a) - temperature log pi(a|s))
        temperature: log(temperature) (entropy - target_entropy)

    Args:
      spec: the environment's spaces: discrete actions, or a Box with finite bounds.
      config: the settings.
      replay: a uniform one if none is given.

    Raises:
      InputError: if a setting is out of range or the actions fit neither form.
    """
    validate(config, "sac")
    actor = _discrete(spec, config) if isinstance(spec.action_space, Discrete) else _continuous(spec, config)
    target_entropy = actor.target_entropy if config.target_entropy is None else config.target_entropy
    buffer = replay or uniform_replay(spec, config)
    optimizer = adam(step_size(config), eps=1e-8)

    def init(key: Key) -> OffPolicyAgent:
        params = actor.init(key) | {"log_temperature": jnp.log(jnp.float32(config.initial_temperature))}
        return begin_agent(params, params["critics"], optimizer.init(params), buffer)

    def act(agent: OffPolicyAgent, _: PyTree, key: Key, observation: PyTree, explore: bool):
        action = actor.act(agent.params, key, observation, explore)
        if explore:
            keys = jax.random.split(jax.random.fold_in(key, 1), jax.tree.leaves(observation)[0].shape[0])
            drawn = jax.vmap(spec.action_space.sample)(keys)
            started = (agent.num_steps >= config.learning_starts) | (split_mask(observation)[1] is not None)
            action = jnp.where(started, action, drawn)
        return action, (), ()

    def loss(params: PyTree, target_params: PyTree, batch: Transitions, key: Key):
        key_next, key_now = jax.random.split(key)
        temperature = jnp.exp(params["log_temperature"])
        fixed = jax.lax.stop_gradient(params)
        next_value, _ = actor.soft_value(
            fixed["actor"], target_params, key_next, batch.next_observation, jax.lax.stop_gradient(temperature)
        )
        error = actor.taken(params["critics"], batch.observation, batch.action) - (
            batch.reward + batch.discount * next_value
        )
        value, entropy = actor.soft_value(
            params["actor"], fixed["critics"], key_now, batch.observation, jax.lax.stop_gradient(temperature)
        )
        entropy_gap = jax.lax.stop_gradient(jnp.mean(entropy)) - target_entropy
        critic_term = 0.5 * jnp.mean(batch.weight * jnp.sum(error**2, axis=0))
        actor_term = -jnp.mean(batch.weight * value)
        metrics = {
            "critic_loss": critic_term,
            "actor_loss": actor_term,
            "entropy": jnp.mean(entropy),
            "temperature": temperature,
        }
        total = critic_term + actor_term + params["log_temperature"] * entropy_gap
        return total, (jnp.mean(jnp.abs(error), axis=0), metrics)

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        # One Adam serves all parts: it scales each number alone, and each loss reaches only its own.
        gradient, (td_error, metrics) = jax.grad(loss, has_aux=True)(agent.params, agent.target_params, batch, key)
        params, opt_state = descend(optimizer, gradient, agent.opt_state, agent.params)
        target_params = move_towards(agent.target_params, params["critics"], config.tau)
        return agent._replace(params=params, target_params=target_params, opt_state=opt_state), td_error, metrics

    return Algorithm(init, lambda num_envs: (), act, learner(config, buffer, gradient_step))


def _continuous(spec: EnvironmentSpec, config: SACConfig) -> Actor:
    box = unit_box(spec.action_space, "sac")
    base, head = body(spec.observation_space, config), dense(2 * box.size, 0.01, initializer=config.initializer)
    q = critics(spec.observation_space, box.size, config, 2)

    def init(key: Key) -> PyTree:
        keys = jax.random.split(key, 3)
        head_params = init_module(head, keys[1], jnp.zeros(base.size))
        return {"actor": {"body": base.init(keys[0]), "head": head_params}, "critics": q.init(keys[2])}

    def policy(params: PyTree, observation: PyTree) -> SquashedNormal:
        outputs = apply(head, params["head"], base.step(params["body"], (), observation)[0])
        mean, log_std = jnp.split(outputs, 2, axis=-1)
        return SquashedNormal(Normal(mean, jnp.clip(log_std, -20.0, 2.0)))

    def act(params: PyTree, key: Key, observation: PyTree, explore: bool) -> Array:
        pi = policy(params["actor"], observation)
        return box.from_unit(jnp.tanh(pi.sample(seed=key) if explore else pi.mode()))

    def soft_value(params: PyTree, critic_params: PyTree, key: Key, observation: PyTree, temperature: Array):
        pi = policy(params, observation)
        draw = pi.sample(seed=key)
        log_prob = pi.log_prob(draw)
        value = jnp.min(q.apply(critic_params, observation, jnp.tanh(draw)), axis=0)
        return value - temperature * log_prob, -log_prob

    def taken(critic_params: PyTree, observation: PyTree, action: Array) -> Array:
        return q.apply(critic_params, observation, box.to_unit(action))

    return Actor(init, act, soft_value, taken, -float(box.size))


def _discrete(spec: EnvironmentSpec, config: SACConfig) -> Actor:
    assert isinstance(spec.action_space, Discrete)
    num_actions = spec.action_space.n
    network = q_network(spec.observation_space, num_actions, config)

    def init(key: Key) -> PyTree:
        keys = jax.random.split(key, 3)
        return {"actor": network.init(keys[0]), "critics": (network.init(keys[1]), network.init(keys[2]))}

    def policy(params: PyTree, observation: PyTree) -> Categorical:
        return Categorical(mask_illegal(network.apply(params, observation, None), split_mask(observation)[1]))

    def act(params: PyTree, key: Key, observation: PyTree, explore: bool) -> Array:
        pi = policy(params["actor"], observation)
        return pi.sample(seed=key) if explore else pi.mode()

    def values(critic_params: PyTree, observation: PyTree) -> Array:
        return jnp.stack([network.apply(part, observation, None) for part in critic_params])

    def soft_value(params: PyTree, critic_params: PyTree, key: Key, observation: PyTree, temperature: Array):
        pi = policy(params, observation)
        log_probs = jax.nn.log_softmax(pi.logits)
        value = jnp.min(values(critic_params, observation), axis=0) - temperature * log_probs
        return jnp.sum(jnp.exp(log_probs) * value, axis=-1), pi.entropy()

    def taken(critic_params: PyTree, observation: PyTree, action: Array) -> Array:
        chosen = jax.nn.one_hot(action, num_actions)
        return jnp.sum(values(critic_params, observation) * chosen, axis=-1)

    return Actor(init, act, soft_value, taken, 0.9 * math.log(num_actions))
