"""Preprocessing that policy-gradient algorithms share: running statistics of observations and rewards."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from purerl.algos.policy_gradient import PolicyConfig, new_agent, preprocess
from purerl.functional.normalize import normalized
from purerl.optim.optimizers import optimizer_of
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(2,)), Discrete(n=2))


def make_rollout(key):
    observation, reward = jax.random.normal(key, (5, 3, 2)) * 4.0 + 1.0, jax.random.normal(key, (5, 3)) * 7.0
    never = jnp.zeros((5, 3), jnp.bool_)
    return Rollout(
        observation=observation,
        action=jnp.zeros((5, 3), jnp.int32),
        reward=reward,
        terminated=never,
        truncated=never,
        next_observation=observation + 1.0,
        extras=(),
        carry=(),
    )


@pytest.mark.long
def test_a_rollout_is_normalized_by_old_observations_and_new_rewards(key):
    config = PolicyConfig(num_envs=3, normalize_observation=True, normalize_reward=True)
    rollout, agent = make_rollout(key), new_agent(key, {}, optimizer_of(config, 1, optax.sgd), SPEC, config)
    after, learned = preprocess(agent, rollout, SPEC, config)
    np.testing.assert_allclose(learned.observation, jnp.clip(rollout.observation, -10, 10), rtol=1e-5)
    np.testing.assert_allclose(after.observation_statistics.mean, rollout.observation.mean((0, 1)), rtol=1e-5)
    spread = np.sqrt(after.return_scale.statistics.variance)
    np.testing.assert_allclose(learned.reward, np.clip(rollout.reward / spread, -10, 10), rtol=1e-4)
    seen = normalized(after.observation_statistics, rollout.observation)
    np.testing.assert_allclose(seen.mean((0, 1)), 0.0, atol=1e-5)
    np.testing.assert_allclose(seen.std((0, 1)), 1.0, rtol=1e-4)


def test_without_normalization_nothing_changes(key):
    config = PolicyConfig(num_envs=3)
    rollout, agent = make_rollout(key), new_agent(key, {}, optimizer_of(config, 1, optax.sgd), SPEC, config)
    after, learned = preprocess(agent, rollout, SPEC, config)
    assert after == agent and learned == rollout and normalized(agent.observation_statistics, key) is key
