"""Every adapter distinguishes termination from truncation, even if both come with the same step."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.prng import fast

pytestmark = pytest.mark.suites

LONG = 400


def has(package):
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")


def check(end_of):
    """Hold `end_of`, limit -> (step, terminated, truncated), to the three ways in which an episode can end."""
    step, *how = end_of(LONG)
    assert 1 < step < LONG and how == [True, False], "an ending before the limit"
    assert end_of(step) == (step, True, False), "an ending on the step of the limit"
    assert end_of(step - 1) == (step - 1, False, True), "the limit alone"


def first_end(env, choose, key=None):
    """Play until the first ending; choose: (key, t, observation) -> action."""

    def one(carry, inputs):
        t, key = inputs
        state, observation = carry
        state, step = env.step(key, state, choose(key, t, observation))
        return (state, step.observation), (step.terminated, step.truncated)

    def play(key):
        inputs = jnp.arange(LONG, dtype=jnp.int32), jax.random.split(key, LONG)
        return jax.lax.scan(one, env.reset(key), inputs)[1]

    terminated, truncated = jax.jit(play)(fast(jax.random.key(3)) if key is None else key)
    t = int(np.argmax(terminated | truncated))
    return t + 1, bool(terminated[t]), bool(truncated[t])


def always(action):
    return lambda key, t, observation: jnp.asarray(action)


ADAPTERS = {
    "gymnax/CartPole-v1": ({}, always(0), None),
    "brax/inverted_pendulum": ({"backend": "spring"}, always([1.0]), None),
    "jumanji/Snake-v1": ({}, always(0), "jumanji"),
    "pgx/minatar-breakout": ({}, always(0), "pgx"),
    "navix/Navix-Empty-Random-5x5-v0": (
        {},
        lambda key, t, observation: jax.random.randint(key, (), 0, 3, jnp.int32),
        "navix",
    ),
    "xminigrid/MiniGrid-EmptyRandom-5x5": (
        {},
        lambda key, t, observation: jax.random.randint(key, (), 0, 3, jnp.int32),
        "xminigrid",
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=has(package or "jax")) for name, (_, _, package) in ADAPTERS.items()]
)
def test_adapters_with_a_time_limit(name):
    parameters, choose, _ = ADAPTERS[name]
    check(lambda limit: first_end(purerl.make(name, time_limit=limit, **parameters), choose))


@has("jaxmarl")
def test_a_riddle_that_is_told_in_time_or_not():
    """switch_riddle of 3 agents has 6 steps; whoever is in the room may end it."""
    env = purerl.make("jaxmarl/switch_riddle", num_agents=3)
    tell = env._env.game_actions["TELL"]

    def choose(when):
        say = lambda t: jnp.where(t + 1 == when, tell, 0).astype(jnp.int32)
        return lambda key, t, observation: jax.tree.map(
            lambda s: jnp.full(s.shape, say(t), s.dtype), env.action_space.struct
        )

    assert first_end(env, choose(3)) == (3, True, False)
    assert first_end(env, choose(6)) == (6, True, False), "an ending on the step of the limit"
    assert first_end(env, choose(LONG)) == (6, False, True)


@has("jaxmarl")
def test_a_coin_game_runs_out_of_time():
    env = purerl.make("jaxmarl/coin_game", num_inner_steps=3, num_outer_steps=2)
    assert first_end(env, lambda key, t, observation: env.action_space.sample(key)) == (6, False, True)


@pytest.mark.slow
@has("jaxmarl")
@pytest.mark.timeout(900)
def test_a_battle_of_smax_is_lost_or_runs_out_of_time():
    """SMAX looks at its clock before it moves it: its limit is one step more."""

    def end_of(limit):
        env = purerl.make("jaxmarl/HeuristicEnemySMAX", scenario="3m", max_steps=limit - 1)
        stop = lambda s: jnp.full(s.shape, 4, s.dtype)  # everyone stands still
        return first_end(env, lambda key, t, observation: jax.tree.map(stop, env.action_space.struct))

    check(end_of)


@pytest.mark.slow
@has("jaxmarl")
@pytest.mark.timeout(900)
def test_a_body_of_several_agents_falls_or_runs_out_of_time():
    def end_of(limit):
        env = purerl.make("jaxmarl/hopper_3x1", episode_length=limit)
        push = lambda s: jnp.ones(s.shape, s.dtype)
        return first_end(env, lambda key, t, observation: jax.tree.map(push, env.action_space.struct))

    check(end_of)


def first_end_on_the_host(source, actions):
    env = source.open(1, seed=3, parallel=False, evaluation=True)
    env.reset(None)
    for t, action in enumerate(actions):
        step = env.step(np.asarray([action], np.int32), None, t)
        if step.over[0]:
            env.close()
            return t + 1, bool(step.terminated[0]), bool(step.truncated[0])
    raise AssertionError("no ending")


@has("gymnasium")
def test_gymnasium():
    make = lambda limit: purerl.make("gymnasium/CartPole-v1", max_episode_steps=limit)
    check(lambda limit: first_end_on_the_host(make(limit), [0] * LONG))


@has("envpool")
def test_envpools_classic_tasks_do_not_tell_an_ending_on_the_step_of_the_limit():
    """EnvPool says that the time is up, and nothing else."""

    def end_of(limit):
        return first_end_on_the_host(purerl.make("envpool/CartPole-v1", max_episode_steps=limit), [0] * LONG)

    step, *how = end_of(LONG)
    assert how == [True, False]
    assert end_of(step) == (step, False, True)
    assert end_of(step - 1) == (step - 1, False, True)


@pytest.mark.parametrize(
    "name", [pytest.param("envpool", marks=has("envpool")), pytest.param("ale", marks=has("ale_py"))]
)
def test_atari(name):
    """A game of Breakout: frames are counted, four to a step."""
    actions = np.random.default_rng(0).integers(0, 4, LONG)

    def end_of(limit):
        settings = {"preprocessing": "2015", "noop_max": 0, "frame_skip": 4, "max_frames": 4 * limit}
        return first_end_on_the_host(purerl.make(f"{name}/Breakout-v5", **settings), actions)

    check(end_of)
