"""A pool with dm_env's conventions: step types and discounts by hand."""

import numpy as np
import pytest

from purerl import pool

pytest.importorskip("dm_env", reason="pip install 'purerl[dm]'")

FIRST, MIDDLE, LAST = 0, 1, 2


def steps(**settings):
    """Return the time steps of two environments with a limit of three steps, over two episodes."""
    env = pool.make("CartPole-v1", env_type="dm", num_envs=2, seed=0, max_episode_steps=3, **settings)
    return env, [env.reset(), *[env.step(np.array([0, 1])) for _ in range(6)]]


@pytest.mark.parametrize(("strict", "at_the_limit"), [(False, 1.0), (True, 0.0)])
def test_a_time_limit_is_not_an_ending_unless_envpool_is_followed(strict, at_the_limit):
    env, seen = steps(strict_envpool=strict)
    kinds = [FIRST, MIDDLE, MIDDLE, LAST, FIRST, MIDDLE, MIDDLE]
    assert [step.step_type.tolist() for step in seen] == [[kind] * 2 for kind in kinds]
    assert [step.reward.tolist() for step in seen] == [[float(kind != FIRST)] * 2 for kind in kinds]
    assert [step.discount.tolist() for step in seen] == [[at_the_limit if kind == LAST else 1.0] * 2 for kind in kinds]
    spec = env.observation_spec()
    assert spec.obs.shape == (4,) and env.action_spec().num_values == 2
    assert seen[0].observation.obs.shape == (2, 4) and seen[0].observation.env_id.tolist() == [0, 1]


@pytest.mark.long
def test_some_environments_alone():
    env, _ = steps()
    step = env.reset(np.array([1]))
    assert step.observation.env_id.tolist() == [1] and step.step_type.tolist() == [FIRST]


def test_an_ending_has_no_value_after_it():
    env = pool.make("CartPole-v1", env_type="dm", num_envs=1, seed=0)
    step = env.reset()
    while step.step_type[0] != LAST:
        step = env.step(np.array([1]))
    assert step.discount.tolist() == [0.0], "the pole fell"
