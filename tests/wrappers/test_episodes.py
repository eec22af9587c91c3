"""Wrappers of episodes."""

import dataclasses

import numpy as np

from purerl.envs.grid.grid_world import GridWorld
from purerl.wrappers import (
    DomainRandomization,
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


def test_a_state_is_drawn_under_its_episodes_parameters(key):
    """Another map for each episode: the pictures and the text show that map, not the one the wrapper holds."""
    env = DomainRandomization(GridWorld(), redraw=lambda key, env: dataclasses.replace(env, **env.draw_level(key)))
    state, _ = env.reset(key)
    drawn = dataclasses.replace(GridWorld(), **state.outer)
    assert env.render_text(state) == drawn.render_text(state.inner) != GridWorld().render_text(state.inner)
    np.testing.assert_array_equal(env.render(state), drawn.render(state.inner))
    assert [x.tolist() for x in env.render_episode([state, state])] == [drawn.render(state.inner).tolist()] * 2
