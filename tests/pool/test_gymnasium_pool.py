"""The pool as other libraries use it."""

import gymnasium
import numpy as np
import pytest

from purerl import pool


def test_gymnasium_vector_environment():
    env = pool.make("CartPole-v1", env_type="vector", num_envs=3, seed=0)
    assert isinstance(env, gymnasium.vector.VectorEnv) and env.unwrapped is env
    assert env.observation_space == gymnasium.vector.utils.batch_space(env.single_observation_space, 3)
    wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    first, _ = wrapped.reset(seed=5)
    again, _ = wrapped.reset(seed=5)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, env.reset(seed=[5, 6, 7])[0])  # a seed for each environment
    assert env.observation_space.contains(first)
    env.action_space.seed(0)
    lengths, returns, ended_before, length = [], [], np.zeros(3, bool), np.zeros(3, int)
    for _ in range(80):
        _, _, terminated, truncated, info = wrapped.step(env.action_space.sample())
        length = np.where(ended_before, 0, length + 1)
        ended_before = terminated | truncated
        if "episode" in info:
            returns += info["episode"]["r"][ended_before].tolist()
            lengths += length[ended_before].tolist()
    assert lengths and returns == [float(n) for n in lengths]  # a reward of 1 for each step, none for a reset
    wrapped.close()
    assert env.closed


def test_a_loop_like_cleanrls():
    """The sampling loop of CleanRL's ppo_atari_envpool.py: its bookkeeping of returns must come out right."""
    envs = pool.make("CartPole-v1", env_type="gym", num_envs=4, seed=1)
    envs.single_action_space, envs.single_observation_space = envs.action_space, envs.observation_space
    assert envs.single_observation_space.shape == (4,)
    envs.reset()
    episode_return, finished = np.zeros(4), []
    rng = np.random.default_rng(0)
    for _ in range(120):
        _, reward, terminated, truncated, info = envs.step(rng.integers(0, envs.single_action_space.n, 4))
        episode_return += reward
        done = terminated | truncated
        np.testing.assert_array_equal(info["elapsed_step"], episode_return)
        finished += episode_return[done].tolist()
        episode_return[done] = 0
    assert len(finished) > 8 and 15 < np.mean(finished) < 35  # CartPole at random: about 22


def test_it_is_an_environment_of_gymnasium_as_well_as_a_vector_of_them():
    """Scripts for EnvPool wrap it by subclasses of `gymnasium.Wrapper`."""

    class Returns(gymnasium.Wrapper):
        def step(self, action):
            observation, reward, terminated, truncated, info = self.env.step(action)
            return observation, 2.0 * reward, terminated, truncated, info

    env = pool.make("CartPole-v1", num_envs=3)
    assert isinstance(env, gymnasium.Env) and isinstance(env, gymnasium.vector.VectorEnv)
    wrapped = Returns(env)
    observation, _ = wrapped.reset()
    assert observation.shape == (3, 4) and wrapped.step(np.zeros(3, int))[1].tolist() == [2.0] * 3
    assert wrapped.has_wrapper_attr("num_envs") and wrapped.get_wrapper_attr("num_envs") == 3
    wrapped.set_wrapper_attr("note", 7)
    assert wrapped.get_wrapper_attr("note") == 7


@pytest.mark.long_for("dm")
@pytest.mark.parametrize("env_type", pool.ENV_TYPES)
def test_it_prints_what_it_is(env_type):
    env = pool.make("CartPole-v1", env_type=env_type, num_envs=2)
    assert str(env) == repr(env) and "CartPole-v1, num_envs=2" in str(env)
