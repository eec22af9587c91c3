"""MuJoCo Playground's environments step as Playground says and start afresh."""

import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.spaces import Box
from tests.helpers import suites

pytestmark = pytest.mark.suites

pytest.importorskip("mujoco_playground", reason="it is not installed: pip install 'purerl[playground]'")


@pytest.mark.parametrize("name", ["CartpoleBalance", pytest.param("ReacherEasy", marks=pytest.mark.slow)])
def test_steps_as_playground_does(name, side_by_side):
    out = side_by_side(
        purerl.make(f"playground/{name}", time_limit=10), *suites.playground(name, 10), num_envs=4, steps=12
    )
    assert out.ours.truncated[:, 9].all() and not out.ours.terminated.any()
    assert len(np.unique(out.first, axis=0)) == 4, "every episode has a start of its own"


def test_broken_physics_end_an_episode_without_nan(key):
    env = purerl.make("playground/CartpoleBalance")
    state, _ = jax.jit(env.reset)(key)
    data = state.suite.data
    broken = state._replace(suite=state.suite.replace(data=data.replace(qvel=data.qvel * jnp.nan)))
    _, step = jax.jit(env.step)(key, broken._replace(time=jnp.int32(env.time_limit - 1)), jnp.zeros(1))
    assert step.terminated and not step.truncated, "with the step of the limit too"
    assert np.isfinite(step.observation).all() and np.isfinite(step.reward)


def test_spaces_and_config():
    env = purerl.make("playground/CartpoleBalance")
    assert env.action_space == Box(low=-1.0, high=1.0, shape=(1,))
    assert env.observation_space.shape == (5,)
    assert env.time_limit == 1000
    assert dict(purerl.make("playground/CartpoleBalance", sim_dt=0.005).options)["sim_dt"] == 0.005


def test_what_is_refused(refused):
    assert "did you mean 'CheetahRun'" in refused("playground/CheetaRun")
    assert "did you mean 'ctrl_dt'" in refused("playground/CartpoleBalance", ctrl_d=0.1)
    assert "time_limit" in refused("playground/CartpoleBalance", time_limit=0)


def test_robots_that_cannot_be_downloaded_are_told_in_a_line(refused, monkeypatch, tmp_path):
    from mujoco_playground._src import mjx_env

    def fails(*_):
        raise subprocess.CalledProcessError(128, ["git", "clone"])

    monkeypatch.setattr(mjx_env, "MENAGERIE_PATH", tmp_path / "menagerie")
    monkeypatch.setattr(mjx_env, "EXTERNAL_DEPS_PATH", tmp_path)
    monkeypatch.setattr(mjx_env, "_clone_with_progress", fails)
    assert "could not download its models of robots (mujoco_menagerie) from GitHub" in refused("playground/Go1Getup")
