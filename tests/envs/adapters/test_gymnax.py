"""gymnax's environments step as gymnax's own public `step` says."""

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from gymnax.environments import environment, spaces

import purerl
from purerl.algos.ppo import PPOConfig, ppo
from purerl.errors import InputError
from purerl.prng import fast
from purerl.spaces import Box, Discrete
from purerl.testing import check_environment
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


@struct.dataclass
class OldParams(environment.EnvParams):
    max_steps_in_episode: int = 5
    goal: int = 3


class Line(environment.Environment):
    """Counts up by the action. As before gymnax 1.0, its `done` holds the time limit."""

    @property
    def default_params(self):
        return OldParams()

    def reset_env(self, key, params):
        state = environment.EnvState(time=0), jnp.int32(0)
        return jnp.zeros(1), state

    def step_env(self, key, state, action, params):
        time, place = state[0].time + 1, state[1] + action
        done = (place >= params.goal) | (time >= params.max_steps_in_episode)
        return place[None] / 10, (environment.EnvState(time=time), place), 1.0 * place, done, {}

    def action_space(self, params=None):
        return spaces.Discrete(2)

    def observation_space(self, params):
        return spaces.Box(0, 1, (1,))


@pytest.mark.parametrize(("action", "steps", "terminated"), [(1, 3, True), (0, 5, False)])
def test_an_object_of_the_users(action, steps, terminated):
    """Its ending is a termination, its time limit a truncation."""
    env = purerl.from_gymnax(Line())
    state, _ = env.reset(jax.random.key(0))
    for _ in range(steps):
        state, step = env.step(jax.random.key(0), state, jnp.int32(action))
    assert (bool(step.terminated), bool(step.truncated)) == (terminated, not terminated)
    assert purerl.from_gymnax(Line(), OldParams(goal=1)).params.goal == 1
    check_environment(env)


def test_an_object_is_recognized():
    for env in (Line(), gymnax.make("CartPole-v1")[0]):
        with pytest.raises(InputError, match=r"of gymnax; make it by its adapter: purerl.from_gymnax\(env\)"):
            purerl.make_train(ppo, env, PPOConfig())
    with pytest.raises(InputError, match="params is a dict; the parameters of Line are a OldParams"):
        purerl.from_gymnax(Line(), {"goal": 3})
    with pytest.raises(InputError, match=r"from_gymnax takes an environment of gymnax, such as .*; this is a tuple"):
        purerl.from_gymnax(gymnax.make("CartPole-v1"))
