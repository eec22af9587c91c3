"""Soft actor-critic around critics of an algorithm's own: the policy, acting and learning that TQC and REDQ share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.algo_parts.actor_critic_replay import UnitBox, random_at_first, unit_box
from purerl.algo_parts.off_policy import (
    OffPolicyAgent,
    learn_from_replay,
    move_towards,
    new_agent,
    new_statistics,
    uniform_replay,
)
from purerl.functional import masked
from purerl.functional.distributions import Normal, SquashedNormal
from purerl.functional.normalize import normalized
from purerl.networks.critics import Critics
from purerl.networks.encoder import NetworkConfig, encoder
from purerl.networks.modules import Module
from purerl.networks.torsos import apply, dense
from purerl.networks.torsos import init as init_module
from purerl.optim.optimizers import Optimizer, apply_gradients, optimizer_of
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout
from purerl.xla.trees import where
from purerl.xla.vmap_cond import any_member


class SquashedPolicy(NamedTuple):
    """A policy of tanh-squashed normals over a box of actions."""

    box: UnitBox
    init: Callable[[Key, Key], PyTree]  # (key of the body, key of the head) -> params
    distribution: Callable[[PyTree, PyTree], SquashedNormal]  # (params, observation[...]) -> distribution[...]
    act: Callable[[PyTree, Key, PyTree, bool], Array]
    # ({"actor": params, ...}, key, observation[B], explore) -> action of the box f32[B, n]


def squashed_policy(spec: EnvironmentSpec, config: NetworkConfig, network: Module | None, what: str) -> SquashedPolicy:
    """Return a policy whose mean and spread both depend on the observation, without its global state.

    Args:
      spec: the environment's spaces.
      config: the settings of the torso.
      network: a module that stands for the torso.
      what: the algorithm, for errors.

    Raises:
      InputError: if the actions are not a box of floats with one axis and finite bounds.
    """
    box = unit_box(spec.action_space, what)
    base = encoder(spec.observation_space, config, network)
    head = dense(2 * box.size, 0.01, initializer=config.initializer)

    def init(key_body: Key, key_head: Key) -> PyTree:
        return {"body": base.init(key_body), "head": init_module(head, key_head, jnp.zeros(base.size))}

    def distribution(params: PyTree, observation: PyTree) -> SquashedNormal:
        outputs = apply(head, params["head"], base.step(params["body"], (), observation)[0])
        mean, log_std = jnp.split(outputs, 2, axis=-1)
        return SquashedNormal(Normal(mean, jnp.clip(log_std, -20.0, 2.0)))

    def act(params: PyTree, key: Key, observation: PyTree, explore: bool) -> Array:
        policy = distribution(params["actor"], observation)
        return box.from_unit(jnp.tanh(policy.sample(seed=key) if explore else policy.mode()))

    return SquashedPolicy(box=box, init=init, distribution=distribution, act=act)


class SoftCritics(NamedTuple):
    """What an algorithm makes of its critics; actions are in [-1, 1]."""

    networks: Critics
    next_values: Callable[[Array, Key], Array]
    # (outputs of the target critics for the successors f32[num, N, ...], key) -> values of a target f32[N, m]
    errors: Callable[[Array, Array], tuple[Array, Array]]
    # (outputs f32[num, N, ...], targets f32[N, m]) -> (loss f32[N], |TD error| f32[N])
    value: Callable[[Array], Array]  # outputs f32[num, N, ...] -> what the policy climbs, f32[N]


def new_actor(policy: SquashedPolicy, config: Any, key_body: Key, key_head: Key) -> dict[str, PyTree]:
    """Return the parameters of the policy and of its temperature: "actor", "log_temperature"."""
    temperature = jnp.log(jnp.float32(config.initial_temperature))
    return {"actor": policy.init(key_body, key_head), "log_temperature": temperature}


def improve_actor(
    agent: OffPolicyAgent,
    policy: SquashedPolicy,
    config: Any,
    step: Any,
    value: Callable[[PyTree, Array], Array],
    batch: Transitions,
    key: Key,
) -> tuple[dict[str, PyTree], PyTree, Metrics]:
    """Return (parameters of policy and temperature, their opt_state, metrics) after a gradient step, where it is due.

    Args:
      agent: with `new_actor`'s parameters, and their opt_state under "actor".
      policy: the policy.
      config: has `policy_period` and `target_entropy`.
      step: the optimizer.
      value: (observation[N], action in [-1, 1] f32[N, n]) -> what the policy climbs, f32[N].
      batch: what the replay drew.
      key: for the actions.
    """
    target_entropy = -float(policy.box.size) if config.target_entropy is None else config.target_entropy

    def loss(params: dict[str, PyTree]) -> tuple[Array, Metrics]:
        temperature, now = jnp.exp(params["log_temperature"]), policy.distribution(params["actor"], batch.observation)
        draw = now.sample(seed=key)
        entropy = -now.log_prob(draw)
        soft = value(batch.observation, jnp.tanh(draw)) + jax.lax.stop_gradient(temperature) * entropy
        actor_loss, mean_entropy = -jnp.mean(batch.weight * soft), masked.mean(entropy, batch.weight > 0)
        temperature_loss = params["log_temperature"] * (jax.lax.stop_gradient(mean_entropy) - target_entropy)
        return actor_loss + temperature_loss, {
            "actor_loss": actor_loss,
            "entropy": mean_entropy,
            "temperature": temperature,
        }

    def improve(params: dict[str, PyTree], opt_state: PyTree) -> tuple[tuple[dict[str, PyTree], PyTree], Metrics]:
        gradient, metrics = jax.grad(loss, has_aux=True)(params)
        return apply_gradients(step, gradient, opt_state, params), metrics

    def wait(params: dict[str, PyTree], opt_state: PyTree) -> tuple[tuple[dict[str, PyTree], PyTree], Metrics]:
        return (params, opt_state), loss(params)[1]

    due = (agent.num_gradient_steps + 1) % config.policy_period == 0
    learner = ({name: agent.params[name] for name in ("actor", "log_temperature")}, agent.opt_state["actor"])
    improved, metrics = jax.lax.cond(any_member(due), improve, wait, *learner)
    return *where(due, improved, learner), metrics


def soft_agent(
    spec: EnvironmentSpec,
    config: Any,
    policy: SquashedPolicy,
    critics: SoftCritics,
    optimizer: Optimizer,
    replay: Replay | None,
) -> Algorithm:
    r"""Return a soft actor-critic with continuous actions and a learned temperature.

        targets: scale r + discount (values - temperature log pi(a'|s'))
        policy:  -E(value(s, a) - temperature log pi(a|s)), every policy_period-th gradient step
        temperature: log(temperature) (entropy - target_entropy), with the policy

    Args:
      spec: the environment's spaces.
      config: the settings of SAC and `policy_period`.
      policy: the policy.
      critics: the critics.
      optimizer: of either part.
      replay: a uniform one if none is given.
    """
    buffer = replay or uniform_replay(spec, config, between=config.n_step > 1)
    descent = optimizer_of(config, config.num_gradient_steps, optimizer)  # of either part

    def init(key: Key) -> OffPolicyAgent:
        keys = jax.random.split(key, 3)
        actor = new_actor(policy, config, keys[0], keys[1])
        params = actor | {"critics": critics.networks.init(keys[2])}
        start = descent(jnp.int32(0)).init
        opt_state = {"actor": start(actor), "critics": start(params["critics"])}
        return new_agent(params, params["critics"], opt_state, buffer, new_statistics(spec, config))

    def act(agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        action = policy.act(agent.params, key, normalized(agent.observation_statistics, observation), explore)
        if explore:
            action = random_at_first(spec.action_space, config, agent, key, observation, action)
        return action, carry, ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        return learn_from_replay(agent, key, rollout, buffer, gradient_step, config)

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        step, (key_critics, key_actor) = descent(agent.num_updates), jax.random.split(key)
        gradient, (error, critic_term) = jax.grad(critic_loss, has_aux=True)(
            agent.params["critics"], agent.params, agent.target_params, batch, key_critics
        )
        networks, critics_opt = apply_gradients(step, gradient, agent.opt_state["critics"], agent.params["critics"])
        target_params = move_towards(agent.target_params, networks, config.tau)

        value = lambda observation, action: critics.value(critics.networks.apply(networks, observation, action))
        actor, actor_opt, metrics = improve_actor(agent, policy, config, step, value, batch, key_actor)
        agent = agent._replace(
            params=actor | {"critics": networks},
            target_params=target_params,
            opt_state={"actor": actor_opt, "critics": critics_opt},
        )
        return agent, error, {"critic_loss": critic_term} | metrics

    def critic_loss(params: PyTree, agent_params: PyTree, target_params: PyTree, batch: Transitions, key: Key):
        temperature, key_values = jnp.exp(agent_params["log_temperature"]), jax.random.fold_in(key, 1)
        following = policy.distribution(agent_params["actor"], batch.next_observation)
        draw = following.sample(seed=key)
        outputs = critics.networks.apply(target_params, batch.next_observation, jnp.tanh(draw))
        values = critics.next_values(outputs, key_values) - (temperature * following.log_prob(draw))[:, None]
        target = (config.reward_scale * batch.reward)[:, None] + batch.discount[:, None] * values
        if batch.between is not None:  # the entropies of the steps in between are rewards too
            between = policy.distribution(agent_params["actor"], batch.between.observation)
            entropy = -between.log_prob(between.sample(seed=jax.random.fold_in(key, 2)))
            target = target + (temperature * jnp.sum(batch.between.discount * entropy, axis=0))[:, None]
        outputs = critics.networks.apply(params, batch.observation, policy.box.to_unit(batch.action))
        losses, error = critics.errors(outputs, jax.lax.stop_gradient(target))
        total = jnp.mean(batch.weight * losses)
        return total, (error, total)

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)
