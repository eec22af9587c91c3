"""A small sound algorithm, which tests break in one way at a time."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.functional.action_masks import split_mask
from purerl.types import Algorithm, Config, number, pytree, static


@pytree
class LinearConfig(Config):
    learning_rate: float = number(default=0.05, above=0)
    epsilon: float = number(default=0.3, at_least=0, at_most=1)
    num_sweeps: int = static(default=2)


class LinearAgent(NamedTuple):
    weights: jax.Array  # f32[F, 2]
    updates: jax.Array


def linear_q(spec, config):
    """Q-learning with a linear action value: a complete algorithm in thirty lines."""
    inputs = sum(leaf.size for leaf in jax.tree.leaves(split_mask(spec.observation_space.struct)[0]))
    num_actions = spec.action_space.n

    def action_value(weights, observation):
        observation, mask = split_mask(observation)
        x = jnp.concatenate(jax.tree.leaves(observation), axis=-1)
        return jnp.where(True if mask is None else mask, x @ weights, -jnp.inf)

    def init(key):
        return LinearAgent(0.01 * jax.random.normal(key, (inputs, num_actions)), jnp.int32(0))

    def act(agent, carry, key, observation, explore):
        values = action_value(agent.weights, observation)
        greedy = jnp.argmax(values, axis=-1).astype(jnp.int32)
        key_draw, key_which = jax.random.split(key)
        drawn = jax.random.categorical(key_draw, jnp.where(jnp.isfinite(values), 0.0, -jnp.inf)).astype(jnp.int32)
        at_random = jax.random.bernoulli(key_which, config.epsilon, greedy.shape)
        return (jnp.where(at_random, drawn, greedy) if explore else greedy), carry, ()

    def update(agent, key, rollout):
        following = jnp.max(action_value(agent.weights, rollout.next_observation), axis=-1)
        target = rollout.reward + config.discount * jnp.where(rollout.terminated, 0.0, following)

        def loss(weights):
            values = action_value(weights, rollout.observation)
            chosen = jnp.take_along_axis(values, rollout.action[..., None], axis=-1)[..., 0]
            return jnp.mean((chosen - target) ** 2)

        weights = agent.weights
        for _ in range(config.num_sweeps):
            weights = weights - 20 * config.learning_rate * jax.grad(loss)(weights)
        return LinearAgent(weights, agent.updates + 1), {"loss": loss(weights)}

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


CONFIG = LinearConfig(num_envs=8, rollout_length=8, total_timesteps=25_600, discount=0.9, reset_policy="always")


def broken(change):
    """Return the algorithm after `change(algo, spec, config) -> Algorithm`."""

    def faulty(spec, config):
        return change(linear_q(spec, config), spec, config)

    return faulty
