"""navix's environments step as navix says, and start again at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.envs.adapters.common import raw_key
from purerl.spaces import Discrete

navix = pytest.importorskip("navix", reason="it is not installed: pip install 'purerl[navix]'")


def suite(name, limit):
    """navix's own environment; its step is the suite's public one, which only resets after an ending."""
    with jax.numpy_dtype_promotion("standard"):
        env = navix.make(name, max_steps=limit)

    def reset(key):
        state = env.reset(raw_key(key))
        return state, state.observation.astype(jnp.int8)

    def step(key, state, action):
        state = env.step(state, action)
        return state, (state.observation.astype(jnp.int8), state.reward, state.is_termination(), state.is_truncation())

    return reset, step


@pytest.mark.parametrize("name", ["Navix-Empty-Random-5x5-v0", "Navix-DoorKey-Random-5x5-v0"])
def test_steps_as_navix_does(name, side_by_side):
    env = purerl.make(f"navix/{name}", time_limit=25)
    out = side_by_side(env, *suite(name, 25), num_envs=32, steps=27)
    assert out.ours.truncated[out.running].any()
    if "Empty" in name:
        done = out.ours.terminated & out.running
        assert done.any() and (out.ours.reward[done] == 1).all()
    assert len(np.unique(out.first, axis=0)) > 4, "episodes have starts of their own"


def test_spaces():
    env = purerl.make("navix/Navix-Empty-5x5-v0")
    assert env.action_space == Discrete(n=7)
    assert (env.observation_space.shape, env.observation_space.dtype) == ((5, 5, 3), np.int8)
    picture = purerl.make("navix/Navix-Empty-5x5-v0", observation_fn="rgb").observation_space
    assert picture.dtype == np.uint8 and picture.shape[-1] == 3
    with jax.numpy_dtype_promotion("standard"):
        assert env.time_limit == navix.make("Navix-Empty-5x5-v0").max_steps


def test_what_is_refused(refused):
    assert "did you mean 'Navix-Empty-5x5-v0'" in refused("navix/Navix-Empty-5x5-v3")
    assert "did you mean 'symbolic'" in refused("navix/Navix-Empty-5x5-v0", observation_fn="symbolik")
    assert "did you mean 'time_limit'" in refused("navix/Navix-Empty-5x5-v0", time_limi=4)
    assert "time_limit" in refused("navix/Navix-Empty-5x5-v0", time_limit=0)
