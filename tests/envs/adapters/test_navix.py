"""navix's environments step as navix says, and start again at once."""

import jax
import numpy as np
import pytest

import purerl
from purerl.spaces import Discrete
from tests.helpers import suites

pytestmark = pytest.mark.suites

navix = pytest.importorskip("navix", reason="it is not installed: pip install 'purerl[navix]'")


@pytest.mark.parametrize("name", ["Navix-Empty-Random-5x5-v0", "Navix-DoorKey-Random-5x5-v0"])
def test_steps_as_navix_does(name, side_by_side):
    env = purerl.make(f"navix/{name}", time_limit=25)
    out = side_by_side(env, *suites.navix(name, 25), num_envs=32, steps=27)
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


def test_a_door_that_starts_open_twice_is_in_its_space():
    env = purerl.make("navix/Navix-KeyCorridorS3R1-v0")
    _, first = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 8))
    assert np.min(first) == -2 == env.observation_space.low


def test_what_is_refused(refused):
    assert "did you mean 'Navix-Empty-5x5-v0'" in refused("navix/Navix-Empty-5x5-v3")
    assert "did you mean 'symbolic'" in refused("navix/Navix-Empty-5x5-v0", observation_fn="symbolik")
    assert "did you mean 'time_limit'" in refused("navix/Navix-Empty-5x5-v0", time_limi=4)
    assert "time_limit" in refused("navix/Navix-Empty-5x5-v0", time_limit=0)
