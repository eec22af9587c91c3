"""What `info` holds besides the numbers of environments."""

import jax
import numpy as np
import pytest

import purerl
from purerl import pool
from purerl.pool import infos


def angles(observation):
    return np.arctan2(observation[:, [1, 3]], observation[:, [0, 2]])


@pytest.mark.long
def test_acrobots_angles_are_told_at_the_first_observation_and_at_every_other():
    env = pool.make("Acrobot-v1", num_envs=3, max_episode_steps=2)
    observation, info = env.reset()
    assert info["state"].dtype == np.float32 and info["state"].shape == (3, 2)
    np.testing.assert_allclose(info["state"], angles(observation), atol=1e-6)
    for _ in range(4):
        observation, _, _, _, info = env.step(np.zeros(3, np.int32))
        np.testing.assert_allclose(info["state"], angles(observation), atol=1e-6)


@pytest.mark.long
def test_structs_are_what_a_step_adds():
    assert infos.structs(purerl.make("CartPole-v1")) == {}
    assert infos.structs(purerl.make("Acrobot-v1")) == {"state": jax.ShapeDtypeStruct((2,), np.float32)}
    env = purerl.make("MatrixGame")
    state, _ = jax.eval_shape(env.reset, jax.random.key(0))
    action = env.action_space.struct
    shown = jax.eval_shape(env.step, jax.random.key(0), state, action)[1].info
    assert shown and infos.structs(env) == shown
