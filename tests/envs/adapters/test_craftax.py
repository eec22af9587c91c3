"""Craftax's environments step as Craftax says, and tell a time limit from a death."""

import jax
import numpy as np
import pytest

import purerl
from purerl.spaces import Discrete

pytest.importorskip("craftax", reason="it is not installed: pip install 'purerl[craftax]'")


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiling takes minutes on two cores
def test_classic_steps_as_craftax_does(side_by_side):
    from craftax.craftax_env import make_craftax_env_from_name

    game = make_craftax_env_from_name("Craftax-Classic-Symbolic-v1", auto_reset=True)
    params = game.default_params.replace(max_timesteps=9)

    def reset(key):
        observation, state = game.reset_env(key, params)
        return state, observation

    def step(key, state, action):
        observation, state, reward, done, _ = game.step_env(key, state, action, params)
        late = state.timestep >= 9
        return state, (observation, reward, done & ~late, late)

    env = purerl.make("craftax/Craftax-Classic-Symbolic-v1", time_limit=9)
    out = side_by_side(env, reset, step, num_envs=8, steps=10, told=False)
    assert out.ours.truncated[:, 8].all()
    assert len(np.unique(out.first, axis=0)) == 8, "every episode has a world of its own"
    check_death(env)


def check_death(env):
    key = jax.random.key(0)
    state, _ = jax.jit(env.reset)(key)
    _, step = jax.jit(env.step)(key, state.replace(player_health=state.player_health * 0), np.int32(0))
    assert step.terminated and not step.truncated
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
