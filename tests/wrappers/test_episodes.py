"""Wrappers of episodes."""

import numpy as np

from purerl.wrappers import (
    RecordEpisode,
    TimeLimit,
)
from tests.wrappers.counter import ACTIONS, Counter, play


def test_time_limit_truncates_but_not_what_terminates():
    _, _, timestep = play(TimeLimit(Counter(end=5), time_limit=3), ACTIONS)
    np.testing.assert_array_equal(np.flatnonzero(timestep.truncated), [2, 3])
    np.testing.assert_array_equal(np.flatnonzero(timestep.terminated), [4, 5, 6, 7])
    assert not (timestep.truncated & timestep.terminated).any()


def test_record_keeps_the_episode():
    state, _, timestep = play(RecordEpisode(Counter(), max_length=5), ACTIONS)
    record = state.outer
    np.testing.assert_array_equal(record.observation[:, 0], [0, 1, 2, 3, 4, 5])
    np.testing.assert_array_equal(record.action, ACTIONS[:5])
    np.testing.assert_array_equal(record.reward, timestep.reward[:5])
    assert record.length == 8
