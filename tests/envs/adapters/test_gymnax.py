"""gymnax's environments step as gymnax's own public `step` says."""

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.prng import fast
from purerl.spaces import Box, Discrete
from tests.helpers import suites

pytestmark = pytest.mark.suites

TASKS = {  # name: steps, enough to end by themselves or by a time limit of 30
    "CartPole-v1": 40,
    "Pendulum-v1": 40,
    "Breakout-MinAtar": 40,
    "DeepSea-bsuite": 12,
    "FourRooms-misc": 40,
    "GaussianBandit-misc": 40,
    "FrozenLake-misc": 40,
}


@pytest.mark.parametrize("name", TASKS)
def test_steps_as_gymnax_does(name, side_by_side):
    limit = 8 if "DeepSea" in name else 30
    env = purerl.make(f"gymnax/{name}", time_limit=limit)
    out = side_by_side(
        env,
        *suites.gymnax(name, limit),
        steps=TASKS[name],
        num_envs=16,
        our_key=suites.first_half,
    )
    assert out.ours.truncated[out.running].any() or out.ours.terminated[out.running].any()
    if name in ("CartPole-v1", "FrozenLake-misc"):
        assert out.ours.terminated[out.running].any()
    if name in ("Pendulum-v1", "FourRooms-misc", "GaussianBandit-misc"):
        assert (out.running.sum(axis=1) <= limit).all()
        assert out.ours.truncated[:, limit - 1][out.running[:, limit - 1]].all()
    if name in ("CartPole-v1", "Pendulum-v1"):
        assert len({observation.tobytes() for observation in out.first}) == 16, "every episode has a start of its own"


def test_parameters_are_leaves(key):
    state, _ = purerl.make("gymnax/CartPole-v1").reset(fast(key))

    def angular_velocity(gravity):
        env = purerl.make("gymnax/CartPole-v1", gravity=gravity)
        return env.step(key, state, jnp.int32(1))[1].observation[3]

    gravities = jnp.array([1.0, 9.8, 30.0])
    speeds = jax.jit(jax.vmap(angular_velocity))(gravities)
    np.testing.assert_allclose(speeds, [angular_velocity(g) for g in gravities], rtol=1e-6)
    assert len(np.unique(speeds)) == 3


def test_spaces_are_those_of_gymnax():
    cartpole = purerl.make("gymnax/CartPole-v1")
    assert cartpole.action_space == Discrete(n=2)
    bounds = np.array([4.8, np.inf, 2 * 12 * np.pi / 180, np.inf])
    np.testing.assert_allclose(cartpole.observation_space.high, bounds, rtol=1e-6)
    np.testing.assert_allclose(cartpole.observation_space.low, -bounds, rtol=1e-6)
    assert purerl.make("gymnax/Pendulum-v1").action_space == Box(low=-2.0, high=2.0, shape=(1,))
    assert purerl.make("gymnax/FrozenLake-misc").observation_space == Discrete(n=16)
    assert purerl.make("gymnax/FourRooms-misc").observation_space.dtype == np.int32
    assert purerl.make("gymnax/Catch-bsuite", rows=6, columns=4).observation_space.shape == (6, 4)


def test_spaces_and_limits_may_be_traced():
    def bound(limit, width):
        env = purerl.make("gymnax/CartPole-v1", time_limit=limit, x_threshold=width)
        return env.observation_space.high[0], env.observation_space.high[1]

    width, endless = jax.jit(bound)(jnp.int32(7), jnp.float32(3.0))
    assert (width, endless) == (6.0, np.inf)


def test_what_is_refused(refused):
    assert "did you mean 'CartPole-v1'" in refused("gymnax/CartPol-v1")
    assert "did you mean 'gravity'" in refused("gymnax/CartPole-v1", gravty=3.0)
    assert "time_limit" in refused("gymnax/CartPole-v1", time_limit=0)
    assert "map_name" in refused("gymnax/FrozenLake-misc", map_name=jnp.zeros(3))
    assert "cannot be made" in refused("gymnax/MetaMaze-misc", maze_size=4)


def test_names_are_those_of_gymnax():
    from purerl.envs.adapters.gymnax import names

    assert names() == list(gymnax.registered_envs)
    assert {"CartPole-v1", "Breakout-MinAtar"} <= set(names())
