"""pgx's games, replayed by hand with pgx itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.errors import InputError
from purerl.prng import fast
from tests.helpers import suites

pytestmark = pytest.mark.suites

pgx = pytest.importorskip("pgx", reason="pgx is not installed: pip install 'purerl[pgx]'")


def last_legal(offset, key, observation):
    """An opponent that draws nothing: the last legal move."""
    mask = observation["action_mask"]
    return jnp.int32(mask.shape[0] - 1) - jnp.argmax(mask[::-1]).astype(jnp.int32) + offset


@pytest.mark.parametrize("name", ["tic_tac_toe", "kuhn_poker"])
def test_a_step_lasts_until_it_is_the_agents_turn(name):
    env = purerl.make(f"pgx/{name}", opponent=last_legal, opponent_parameters=jnp.int32(0))
    with jax.numpy_dtype_promotion("standard"):
        game = pgx.make(name)
        init, move = jax.jit(game.init), jax.jit(game.step)
    reset, step = jax.jit(env.reset), jax.jit(env.step)

    def others_move(state, reward):
        while state.current_player != 0 and not state.terminated:
            state = move(state, last_legal(jnp.int32(0), None, {"action_mask": state.legal_action_mask}))
            reward += float(state.rewards[0])
        return state, reward

    random = np.random.default_rng(0)
    began, outcomes = set(), set()
    for key in jax.random.split(fast(jax.random.key(0)), 12):
        state, observation = reset(key)
        with jax.numpy_dtype_promotion("standard"):
            theirs = init(jax.random.split(key)[0])
            began.add(int(theirs.current_player))
            theirs, _ = others_move(theirs, 0.0)
        for _ in range(10):
            np.testing.assert_array_equal(observation["observation"], theirs.observation)
            np.testing.assert_array_equal(observation["action_mask"], theirs.legal_action_mask)
            action = jnp.int32(random.choice(np.flatnonzero(observation["action_mask"])))
            state, timestep = step(key, state, action)
            with jax.numpy_dtype_promotion("standard"):
                theirs = move(theirs, action)
                theirs, reward = others_move(theirs, float(theirs.rewards[0]))
            assert float(timestep.reward) == reward
            assert bool(timestep.terminated) == bool(theirs.terminated)
            observation = timestep.observation
            if timestep.terminated:
                outcomes.add(reward)
                break
        assert timestep.terminated
    assert began == {0, 1}, "either seat begins"
    assert len(outcomes) > 1 or name == "kuhn_poker"


def test_self_play_is_pgx_turn_by_turn(side_by_side):
    """pgx shows its `observation` to whoever moves; that seat's part of ours is the same, the other's mask is open."""
    env = purerl.make("pgx/connect_four", opponent="self")
    assert env == purerl.make("pgx/connect_four").for_self_play()
    with jax.numpy_dtype_promotion("standard"):
        game = pgx.make("connect_four")
        init, move = jax.jit(game.init), jax.jit(game.step)
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    random, began, outcomes = np.random.default_rng(0), set(), set()
    for key in jax.random.split(fast(jax.random.key(0)), 6):
        state, seen = reset(key)
        with jax.numpy_dtype_promotion("standard"):
            theirs = init(key)
        began.add(int(theirs.current_player))
        for _ in range(42):
            mover, other = (f"player_{(int(theirs.current_player) + i) % 2}" for i in range(2))
            np.testing.assert_array_equal(seen[mover]["observation"][0], theirs.observation)
            np.testing.assert_array_equal(seen[mover]["action_mask"][0], theirs.legal_action_mask)
            np.testing.assert_array_equal(seen[other]["observation"][0], np.asarray(theirs.observation)[..., ::-1])
            assert seen["turn"][mover].all() and not seen["turn"][other].any() and seen[other]["action_mask"].all()
            action = jnp.int32(random.choice(np.flatnonzero(theirs.legal_action_mask)))
            state, timestep = step(key, state, {mover: action[None], other: jnp.full(1, 6, jnp.int32)})
            with jax.numpy_dtype_promotion("standard"):
                theirs = move(theirs, action)
            assert [float(timestep.reward[f"player_{i}"][0]) for i in range(2)] == np.asarray(theirs.rewards).tolist()
            assert bool(timestep.terminated) == bool(theirs.terminated)
            seen = timestep.observation
            if timestep.terminated:
                outcomes.add(float(timestep.reward[mover][0]))
                break
        assert timestep.terminated
    assert began == {0, 1} and outcomes <= {0.0, 1.0} and 1.0 in outcomes, "who moves last never loses"


def test_minatar_alone_has_a_time_limit_and_no_mask(side_by_side):
    env = purerl.make("pgx/minatar-breakout", time_limit=12)
    out = side_by_side(env, *suites.pgx_alone("minatar-breakout", 12), num_envs=16, steps=14)
    assert out.ours.terminated[out.running].any() and out.ours.truncated[out.running].any()
    assert purerl.make("pgx/minatar-breakout").time_limit == 2500


def test_the_random_opponent_plays_legal_moves_at_random(key):
    from purerl.envs.adapters.pgx import random_opponent

    mask = jnp.array([False, True, True, False, True])
    moves = jax.vmap(lambda key: random_opponent((), key, {"action_mask": mask}))(jax.random.split(key, 3000))
    counts = np.bincount(moves, minlength=5)
    assert (counts[[0, 3]] == 0).all()
    np.testing.assert_allclose(counts[[1, 2, 4]], 1000, atol=120)  # 4.6 standard deviations


def test_parameters_and_what_is_refused(refused):
    assert purerl.make("pgx/minatar-breakout", use_minimal_action_set=False).action_space.n == 6
    assert purerl.make("pgx/go_9x9", komi=5.5).observation_space.struct["observation"].shape == (9, 9, 17)
    assert "did you mean 'othello'" in refused("pgx/otello")
    assert "did you mean 'time_limit'" in refused("pgx/othello", time_limi=3)
    assert "unknown opponent" in refused("pgx/othello", opponent="strong")
    assert "single-player game" in refused("pgx/2048", opponent="self")
    assert "time_limit" in refused("pgx/othello", time_limit=0)


def test_no_game_is_over_when_it_starts(key):
    """One in seventy games of sparrow mahjong is won before the agent's first turn."""
    env = purerl.make("pgx/sparrow_mahjong")
    state, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(fast(key), 1000))
    assert not state.suite.terminated.any() and (state.suite.current_player == 0).all()


def test_an_object_of_the_users_steps_as_the_named_one():
    given, named = purerl.from_pgx(pgx.make("tic_tac_toe")), purerl.make("pgx/tic_tac_toe")
    assert (given.observation_space, given.action_space) == (named.observation_space, named.action_space)
    assert given.time_limit == named.time_limit
    seen = [env.step(jax.random.key(1), env.reset(jax.random.key(0))[0], jnp.int32(1))[1] for env in (given, named)]
    jax.tree.map(np.testing.assert_array_equal, *seen)
    with pytest.raises(InputError, match=r"of pgx; make it by its adapter: purerl.from_pgx\(env\)"):
        purerl.vectorize(pgx.make("tic_tac_toe"), 2)
