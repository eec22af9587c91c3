"""NumPy's game of tag, with which the group `multi_agent` compares, plays by the rules."""

import numpy as np
import pytest

from benchmarks.numpy_tag import NumpyTag
from purerl.envs.tag.continuous import TagContinuous

pytestmark = pytest.mark.publish


def test_the_opponent_plays_the_game():
    """NumPy's runners leave one after the other, and come back when an episode ends."""
    env = TagContinuous(num_taggers=2, num_runners=6, side=4.0, tagging_distance=0.1, time_limit=50)
    game, left = NumpyTag(env, 3), []
    for _ in range(60):
        observation, _ = game.step()
        left.append(game.active[:, env.num_taggers :].sum(axis=1))
        assert observation.shape == (3, 8, 7 * env.num_neighbors + 1) and np.isfinite(observation).all()
    change = np.diff(np.array(left), axis=0)
    assert (change < 0).any() and (np.array(left)[1:][change > 0] == env.num_runners).all()
