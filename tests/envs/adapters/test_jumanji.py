"""jumanji's environments step as jumanji says, with masks, and distinguish truncation from termination."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl import agent_groups
from purerl.errors import InputError
from purerl.spaces import Box, Discrete, MultiDiscrete
from tests.helpers import suites

pytestmark = pytest.mark.suites

jumanji = pytest.importorskip("jumanji", reason="jumanji is not installed: pip install 'purerl[jumanji]'")


def test_tetris_has_one_action_per_placement(side_by_side):
    env = purerl.make("jumanji/Tetris-v0", num_rows=6, num_cols=5, time_limit=5)
    assert env.action_space == Discrete(n=20)

    def convert(action):
        return jnp.stack([action // 5, action % 5])

    out = side_by_side(
        env, *suites.jumanji("Tetris-v0", 5, convert, num_rows=6, num_cols=5), steps=8, num_envs=16, told=False
    )
    assert out.ours.terminated[out.running].any() and out.ours.truncated[out.running].any()
    tetrominoes = {piece.tobytes() for piece in out.first["tetromino"]}
    assert len(tetrominoes) > 1, "every episode has a start of its own"


def test_maze_ends_at_its_goal_and_not_at_the_limit(side_by_side):
    env = purerl.make("jumanji/Maze-v0", time_limit=25)
    out = side_by_side(env, *suites.jumanji("Maze-v0", 25), steps=27, num_envs=32, told=False)
    done = out.ours.terminated & out.running
    assert done.any() and out.ours.reward[done].min() == 1.0
    assert out.ours.truncated[:, 24][out.running[:, 24] & ~out.ours.terminated[:, 24]].all()


def test_cleaners_each_have_their_mask(side_by_side):
    env = purerl.make("jumanji/Cleaner-v0", time_limit=9)
    assert env.action_space == MultiDiscrete(nvec=(4, 4, 4))
    assert env.observation_space.struct["action_mask"].shape == (12,)
    out = side_by_side(env, *suites.jumanji("Cleaner-v0", 9), steps=10, num_envs=4)
    assert out.ours.truncated[:, 8].all() and not out.ours.terminated.any()


def test_only_the_adapter_keeps_the_time(key):
    env = purerl.make("jumanji/Maze-v0", time_limit=2)
    state, _ = env.reset(key)
    long_ago = state._replace(suite=dataclasses.replace(state.suite, step_count=jnp.int32(1000)))
    state, first = env.step(key, long_ago, jnp.int32(0))
    assert not first.terminated and not first.truncated
    assert env.step(key, state, jnp.int32(0))[1].truncated


def test_spaces():
    rescue = purerl.make("jumanji/SearchAndRescue-v0")
    assert rescue.action_space == Box(low=-1.0, high=1.0, shape=(4,), dtype=np.dtype("float32"))
    assert rescue.time_limit == 400
    knapsack = purerl.make("jumanji/Knapsack-v1")
    assert knapsack.time_limit is None and knapsack.action_space == Discrete(n=50)
    assert purerl.make("jumanji/MMST-v0", time_limit=30).time_limit == 30


def test_what_is_refused(refused):
    assert "did you mean 'Snake-v1'" in refused("jumanji/Snak-v1")
    assert "did you mean 'num_rows'" in refused("jumanji/Snake-v1", num_row=3)
    assert "num_rows" in refused("jumanji/Snake-v1", num_rows=jnp.zeros(2))
    assert "time_limit" in refused("jumanji/Snake-v1", time_limit=0)


def test_names_are_those_of_jumanji():
    from purerl.envs.adapters.jumanji import names

    assert set(names()) == set(jumanji.registered_environments())


def test_where_nothing_is_legal_everything_is():
    """FlatPack continues to its last step although no block fits any more."""
    env, suite = purerl.make("jumanji/FlatPack-v0"), jumanji.make("FlatPack-v0")

    def step(carry, key):
        state, observation = carry
        key_act, key_step = jax.random.split(key)
        action = agent_groups.draw(env.action_space, key_act, observation)
        state, timestep = env.step(key_step, state, action)
        with jax.numpy_dtype_promotion("standard"):
            theirs = suite._make_action_mask(state.suite.grid, state.suite.blocks, state.suite.placed_blocks)
        return (state, timestep.observation), (timestep.observation["action_mask"], theirs.reshape(-1), timestep.done)

    keys = jax.random.split(jax.random.key(0), 25)
    ours, theirs, done = jax.jit(lambda start: jax.lax.scan(step, start, keys)[1])(env.reset(jax.random.key(1)))
    stuck = ~theirs.any(axis=1) & ~done
    assert stuck.any() and done[-1] and not done[:-1].any()
    assert ours[stuck].all() and (ours[~stuck] == theirs[~stuck]).all()


def test_before_the_first_city_the_position_is_none():
    env = purerl.make("jumanji/TSP-v1")
    _, first = jax.jit(env.reset)(jax.random.key(0))
    space = env.observation_space.spaces["position"]
    assert int(first["position"]) == -1 and space == Box(low=-1, high=19, shape=(), dtype=jnp.int32)


def test_an_object_of_the_users_steps_as_the_named_one():
    given, named = purerl.from_jumanji(jumanji.make("Game2048-v1")), purerl.make("jumanji/Game2048-v1")
    assert (given.observation_space, given.action_space) == (named.observation_space, named.action_space)
    assert given.time_limit == named.time_limit
    seen = [env.step(jax.random.key(1), env.reset(jax.random.key(0))[0], jnp.int32(1))[1] for env in (given, named)]
    jax.tree.map(np.testing.assert_array_equal, *seen)
    with pytest.raises(InputError, match=r"of jumanji; make it by its adapter: purerl.from_jumanji\(env\)"):
        purerl.vectorize(jumanji.make("Game2048-v1"), 2)
