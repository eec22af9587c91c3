"""The value function of meta-gradients."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.evolution.baseline import baseline
from purerl.networks.encoder import NetworkConfig
from purerl.spaces import Box
from purerl.types import Rollout


def test_it_learns_the_value_and_returns_standardized_advantages(key):
    """Three states: an end, one with a reward of 1, and a time limit with that reward, where the value counts."""
    net = baseline(Box(low=0.0, high=1.0, shape=(1,)), NetworkConfig(hidden_sizes=(8,), discount=0.5))
    observation = jnp.array([[0.0, 0.5, 1.0]])[..., None]
    end = jnp.array([[True, True, False]])
    rollout = Rollout(
        observation=observation,
        action=jnp.zeros((1, 3), jnp.int32),
        reward=jnp.array([[0.0, 1.0, 1.0]]),
        terminated=end,
        truncated=~end,
        next_observation=observation,
        extras=(),
        carry=(),
    )

    def step(state, _):
        return net.learn(state, rollout)

    state, advantages = jax.jit(lambda key: jax.lax.scan(step, net.init(key), None, 1000))(key)
    np.testing.assert_allclose(advantages.mean(axis=(1, 2)), 0.0, atol=1e-5)
    np.testing.assert_allclose(net.value(state, observation), [[0.0, 1.0, 2.0]], atol=0.05)
