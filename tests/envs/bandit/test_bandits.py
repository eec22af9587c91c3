"""Bandits: rewards against the distribution of the arm pulled, in injected states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.bandit.bernoulli_bandit import BernoulliBandit
from purerl.envs.bandit.gaussian_bandit import GaussianBandit

NUM = 20_000


def pulls(env, state, key):
    """Pull each of three arms NUM times."""

    def pull(key, arm):
        return env.step(key, state, arm)[1]

    keys = jax.random.split(key, NUM)
    return jax.jit(jax.vmap(lambda arm: jax.vmap(pull, (0, None))(keys, arm)))(jnp.arange(3, dtype=jnp.int32))


def test_bernoulli_rewards(key):
    env = BernoulliBandit(num_arms=3, length=5)
    state = env.reset(key)[0]._replace(probabilities=jnp.array([0.0, 0.3, 1.0]))
    step = pulls(env, state, key)
    assert set(np.unique(step.reward)) == {0.0, 1.0}
    np.testing.assert_allclose(step.reward.mean(1), [0.0, 0.3, 1.0], atol=4 * np.sqrt(0.21 / NUM))
    np.testing.assert_array_equal(step.observation[:, 0, :3], np.eye(3))
    np.testing.assert_array_equal(step.observation[:, :, 3], step.reward)


def test_gaussian_rewards(key):
    env = GaussianBandit(num_arms=3, length=5, noise=0.5)
    means = np.array([-1.0, 0.0, 2.0], np.float32)
    state = env.reset(key)[0]._replace(means=jnp.asarray(means))
    step = pulls(env, state, key)
    np.testing.assert_allclose(step.reward.mean(1), means, atol=4 * 0.5 / np.sqrt(NUM))
    np.testing.assert_allclose(step.reward.std(1), 0.5, rtol=0.03)
    np.testing.assert_array_equal(step.observation[:, 0, :3], np.eye(3))
    np.testing.assert_array_equal(step.observation[:, :, 3], step.reward)


@pytest.mark.parametrize(("env", "best_share"), [(BernoulliBandit(), 10 / 11), (GaussianBandit(), 1.5388)])
def test_the_best_arm_pays_what_the_docstring_says(env, best_share, key):
    states = jax.vmap(env.reset)(jax.random.split(key, NUM))[0]
    arms = np.asarray(states[0])
    assert abs(arms.max(1).mean() - best_share) < 0.02
    done = jax.jit(jax.vmap(lambda s, t: env.step(key, s._replace(time=t), jnp.int32(0))[1], (None, 0)))
    done = done(jax.tree.map(lambda x: x[0], states), jnp.array([97, 98, 99], jnp.int32))
    np.testing.assert_array_equal(done.terminated, [False, False, True])
