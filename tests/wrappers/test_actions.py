"""Wrappers of actions and rewards."""

import jax.numpy as jnp
import numpy as np
import pytest

from purerl.wrappers import (
    ActionRepeat,
    RewardClip,
    RewardScale,
    StickyActions,
)
from tests.wrappers.counter import ACTIONS, Counter, play


@pytest.mark.long
def test_sticky_actions_repeat_as_often_as_they_should():
    actions = jnp.tile(ACTIONS, 500)
    _, _, timestep = play(StickyActions(Counter(), probability=0.25), actions)
    done, given = timestep.observation[:, 1].astype(int), np.asarray(actions)
    before = np.concatenate([given[:1], done[:-1]])
    assert ((done == given) | (done == before)).all()
    free = given != before
    assert abs((done[free] != given[free]).mean() - 0.25) < 0.035
    _, _, never = play(StickyActions(Counter(), probability=0.0), actions)
    np.testing.assert_array_equal(never.observation[:, 1], given)
    _, _, always = play(StickyActions(Counter(), probability=1.0), actions)
    assert (always.observation[:, 1] == given[0]).all()


def test_a_repeated_action_was_taken():
    env = StickyActions(Counter(), probability=1.0)  # 0 is not an action of every space
    _, _, timestep = play(env, jnp.array([3, 1, 2]))
    np.testing.assert_array_equal(timestep.observation[:, 1], [3, 3, 3])


def test_action_repeat_adds_rewards_up_to_the_end():
    _, _, timestep = play(ActionRepeat(Counter(end=7), num_repeats=3), ACTIONS[:3])
    np.testing.assert_array_equal(timestep.reward, [1 + 2 + 3, 4 + 5 + 6, 7])
    np.testing.assert_array_equal(timestep.observation[:, 0], [3, 6, 7])
    np.testing.assert_array_equal(timestep.terminated, [False, False, True])


def test_rewards_are_scaled_and_clipped():
    _, _, timestep = play(RewardScale(Counter(), scale=0.5, shift=-2.0), ACTIONS)
    np.testing.assert_allclose(timestep.reward, (np.arange(1, 9) - 2) * 0.5)
    _, _, timestep = play(RewardClip(Counter(), low=2.0, high=5.0), ACTIONS)
    np.testing.assert_array_equal(timestep.reward, [2, 2, 3, 4, 5, 5, 5, 5])
