"""DQN in one file learns, from public names alone."""

from pathlib import Path

import jax
import numpy as np
import pytest

import purerl
from purerl.errors import InputError

pytestmark = pytest.mark.publish


def test_it_learns_and_is_short(script):
    with jax.numpy_dtype_promotion("standard"):  # as users have it: optax.adam mixes dtypes
        curves = script.main(["--steps", "40000"])
    assert curves.shape == (2, 10) and np.nanmax(curves) > 60, curves  # a random policy's return is 22
    assert len(Path(script.__file__).read_text().splitlines()) < 200


def test_the_replay_is_a_ring(script):
    spec = purerl.EnvironmentSpec(purerl.make("CartPole-v1").observation_space, purerl.Discrete(n=2))
    config = script.DQNConfig(num_envs=2, rollout_length=2, replay_capacity=8, learning_starts=100)
    algorithm = script.dqn(spec, config)
    agent = algorithm.init(jax.random.key(0))
    for i in range(3):
        rollout = purerl.Rollout(
            observation=np.full((2, 2, 4), i, np.float32),
            action=np.zeros((2, 2), np.int32),
            reward=np.full((2, 2), 1.0 + i, np.float32),
            terminated=np.zeros((2, 2), bool),
            truncated=np.zeros((2, 2), bool),
            next_observation=np.zeros((2, 2, 4), np.float32),
            extras=(),
            carry=(),
        )
        with jax.numpy_dtype_promotion("standard"):
            agent, _ = algorithm.update(agent, jax.random.key(i), rollout)
    assert agent.replay.reward.tolist() == [3.0] * 4 + [2.0] * 4 and int(agent.num_steps) == 12


def test_what_does_not_fit_is_refused(script):
    with pytest.raises(InputError, match="needs discrete actions"):
        script.main(["--env", "Pendulum-v1", "--steps", "2000"])
    spec = purerl.EnvironmentSpec(purerl.make("CartPole-v1").observation_space, purerl.Discrete(n=2))
    with pytest.raises(InputError, match="multiple of the 10 steps"):
        script.dqn(spec, script.DQNConfig(replay_capacity=15))
