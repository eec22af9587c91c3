"""IQN: it learns the quantile function, and its settings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import InputError
from purerl.algos.iqn import IQNConfig, iqn
from purerl.functional.distributional import midpoints
from purerl.networks.q_networks import quantile_network
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(2,)), Discrete(n=2))
SMALL = {
    "num_envs": 4,
    "rollout_length": 4,
    "batch_size": 64,
    "replay_capacity": 64,
    "learning_starts": 64,
    "hidden_sizes": (32, 32),
    "learning_rate": 3e-3,
    "num_gradient_steps": 400,
    "num_quantiles": 16,
    "num_target_quantiles": 16,
}


def transitions(key, discount):
    """Action 0 pays 0 or 4, each half of the time; action 1 pays 1."""
    first, second = jax.random.split(key)
    action = jax.random.randint(first, (256,), 0, 2)
    coin = jnp.where(jax.random.bernoulli(second, shape=(256,)), 4.0, 0.0)
    states = jnp.ones((256, 2))
    return Transitions(
        observation=states,
        action=action,
        reward=jnp.where(action == 0, coin, 1.0),
        discount=jnp.full(256, discount),
        next_observation=states,
        weight=jnp.ones(256),
        start=jnp.zeros(256, jnp.int32),
    )


def network(config):
    return quantile_network(SPEC.observation_space, 2, config, embedding_size=config.embedding_size)


@jax.jit
def learned(config, discount):
    """Return the parameters after 400 gradient steps."""
    net = network(config)
    memory = Replay(lambda: (), lambda s, _: s, lambda s, key: transitions(key, discount), lambda s, *_: s)
    algorithm = iqn(SPEC, config, network=net, replay=memory)
    agent = algorithm.init(jax.random.key(0))._replace(num_updates=jnp.int32(100))
    never = jnp.zeros((4, 4), bool)
    zeros = jnp.zeros((4, 4, 2))
    rollout = Rollout(zeros, jnp.zeros((4, 4), jnp.int32), jnp.zeros((4, 4)), never, never, zeros, (), ())
    return algorithm.update(agent, jax.random.key(1), rollout)[0].params


def trained(discount, **changes):
    """Return (network, parameters) after training by one program for all numbers."""
    config = IQNConfig(**SMALL, **changes)
    return network(config), learned(config, discount)


@pytest.mark.long
def test_the_quantiles_of_a_coin():
    net, params = trained(discount=0.0, kappa=0.1)
    tau = jnp.array([0.1, 0.3, 0.7, 0.9])
    low, high = np.asarray(net.at(params, jnp.ones(2), tau))
    np.testing.assert_allclose(low, [0.0, 0.0, 4.0, 4.0], atol=0.4)
    np.testing.assert_allclose(high, 1.0, atol=0.3)


@pytest.mark.long
def test_the_best_action_is_the_one_with_the_highest_mean():
    """The coin is worth 2 and the other action 1: forever after, 2 / (1 - 0.5) = 4 and 1 + 0.5 x 4 = 3."""
    net, params = trained(discount=0.5, target_update_interval=20)
    q = jnp.mean(net.at(params, jnp.ones(2), midpoints(64)), axis=-1)
    np.testing.assert_allclose(q, [4.0, 3.0], atol=0.35)


def test_a_level_needs_features():
    with pytest.raises(InputError, match="iqn: hidden_sizes is empty"):
        iqn(SPEC, IQNConfig(hidden_sizes=()))
