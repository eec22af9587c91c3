"""Wrappers of episodes."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.grid.grid_world import GridWorld
from purerl.wrappers import (
    DomainRandomization,
    FrameStack,
    RecordEpisode,
    StickyActions,
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


@pytest.mark.long
def test_a_state_is_drawn_under_its_episodes_parameters(key):
    """Another map for each episode: the pictures and the text show that map, not the one the wrapper holds."""
    env = DomainRandomization(GridWorld(), redraw=lambda key, env: dataclasses.replace(env, **env.draw_level(key)))
    state, _ = env.reset(key)
    drawn = dataclasses.replace(GridWorld(), **state.outer)
    assert env.render_text(state) == drawn.render_text(state.inner) != GridWorld().render_text(state.inner)
    np.testing.assert_array_equal(env.render(state), drawn.render(state.inner))
    assert [x.tolist() for x in env.render_episode([state, state])] == [drawn.render(state.inner).tolist()] * 2


def test_an_episode_has_its_own_parameters_to_its_end():
    end = lambda key, env: dataclasses.replace(env, end=3)
    _, _, timestep = play(DomainRandomization(Counter(end=5), redraw=end), ACTIONS)
    np.testing.assert_array_equal(timestep.terminated[:3], [False, False, True])


def test_a_wrapper_outside_draws_the_episodes_parameters_too(key):
    """As a pool's time limit around an environment whose maps change."""
    bare = GridWorld()
    empty = DomainRandomization(bare, redraw=lambda key, env: dataclasses.replace(env, walls=jnp.zeros_like(env.walls)))
    state, _ = empty.reset(key)
    wrapped = FrameStack(TimeLimit(StickyActions(empty), time_limit=9), num_frames=2)
    outer, _ = wrapped.reset(key)
    np.testing.assert_array_equal(wrapped.render(wrapped.reset(key)[0]), wrapped.render_episode([outer])[0])
    assert (wrapped.render(outer) == empty.render(outer.inner.inner.inner)).all()
    assert (wrapped.render(outer) != bare.render(state.inner)).any()
    assert "#" in bare.render_text(state.inner) and "#" not in wrapped.render_text(outer)
