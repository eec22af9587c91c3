"""The value function of meta-gradients."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.evolution.baseline import baseline
from purerl.networks.encoder import NetworkConfig
from purerl.spaces import Box
from purerl.types import Rollout


def test_it_learns_the_value_and_returns_standardized_advantages(key):
    """Two states, one of which is followed by a reward of 1 and the end."""
    net = baseline(Box(low=0.0, high=1.0, shape=(1,)), NetworkConfig(hidden_sizes=(8,)))
    observation = jnp.array([[0.0, 1.0]])[..., None]
    end = jnp.ones((1, 2), bool)
    rollout = Rollout(
        observation=observation,
        action=jnp.zeros((1, 2), jnp.int32),
        reward=jnp.array([[0.0, 1.0]]),
        terminated=end,
        truncated=~end,
        next_observation=observation,
        extras=(),
        carry=(),
    )

    def step(state, _):
        return net.learn(state, rollout)

    state, advantages = jax.jit(lambda key: jax.lax.scan(step, net.init(key), None, 500))(key)
    np.testing.assert_allclose(advantages.mean(axis=(1, 2)), 0.0, atol=1e-5)
    np.testing.assert_allclose(net.value(state, observation), rollout.reward, atol=0.05)
