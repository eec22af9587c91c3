"""Craftax's environments step as Craftax says, and distinguish a time limit from a death."""

import jax
import numpy as np
import pytest

import purerl
from purerl.spaces import Discrete
from tests.helpers import suites

pytestmark = pytest.mark.suites

pytest.importorskip("craftax", reason="it is not installed: pip install 'purerl[craftax]'")


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiling takes minutes on two cores
def test_classic_steps_as_craftax_does(side_by_side):
    env = purerl.make("craftax/Craftax-Classic-Symbolic-v1", time_limit=9)
    out = side_by_side(env, *suites.craftax("Craftax-Classic-Symbolic-v1", 9), num_envs=8, steps=10, told=False)
    assert out.ours.truncated[:, 8].all()
    assert len(np.unique(out.first, axis=0)) == 8, "every episode has a world of its own"
    check_death(env)


def check_death(env):
    key = jax.random.key(0)
    state, _ = jax.jit(env.reset)(key)
    dead, step_of = state.replace(player_health=state.player_health * 0), jax.jit(env.step)
    _, step = step_of(key, dead, np.int32(0))
    assert step.terminated and not step.truncated
    _, last = step_of(key, dead.replace(timestep=dead.timestep + env.time_limit - 1), np.int32(0))
    assert last.terminated and not last.truncated, "with the step of the limit too"
    assert "Achievements/collect_wood" in step.info


def test_spaces_and_parameters():
    env = purerl.make("craftax/Craftax-Classic-Symbolic-v1", map_size=(32, 32), spawn_cow_chance=0.5)
    assert env.action_space == Discrete(n=17)
    assert env.observation_space.shape == (1345,)
    assert env.time_limit == 10_000 and env.params.spawn_cow_chance == 0.5
    state, _ = jax.eval_shape(env.reset, jax.random.key(0))
    assert state.map.shape == (32, 32)


def test_what_is_refused(refused):
    assert "did you mean 'Craftax-Symbolic-v1'" in refused("craftax/Craftax-Symbolic-v2")
    assert "did you mean 'map_size'" in refused("craftax/Craftax-Symbolic-v1", mapsize=(9, 9))
    assert "time_limit" in refused("craftax/Craftax-Classic-Symbolic-v1", time_limit=0)
