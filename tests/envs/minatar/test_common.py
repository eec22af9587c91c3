"""What the five games share: time limit, action sets, sticky actions, draws from the key."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.envs.minatar.asterix import Asterix
from purerl.envs.minatar.breakout import Breakout
from purerl.envs.minatar.common import pack, unpack
from purerl.envs.minatar.freeway import Freeway
from purerl.envs.minatar.seaquest import Seaquest
from purerl.envs.minatar.space_invaders import SpaceInvaders

GAMES = (Asterix, Breakout, Freeway, Seaquest, SpaceInvaders)


@pytest.mark.parametrize("game", GAMES)
def test_is_registered_with_both_action_sets(game):
    env = purerl.make(f"{game.__name__}-MinAtar")
    assert isinstance(env, game)
    assert env.action_space.n == 6
    assert env.observation_space.shape == (10, 10, len(game.channels))
    assert purerl.make(f"{game.__name__}-MinAtar", action_set="minimal").action_space.n == len(game.minimal_actions)


@pytest.mark.long
def test_packing_sets_the_cells_of_the_boards():
    for num_channels in (1, 4, 6, 7, 10):
        cells = np.random.RandomState(num_channels).rand(10, 10, num_channels) < 0.3
        boards = (cells * (1 << np.arange(10))[None, :, None]).sum(1).astype(np.uint32)
        words = jax.jit(lambda boards: pack([list(board) for board in boards]))(jnp.asarray(boards.T))
        shown = unpack(num_channels, words)
        np.testing.assert_array_equal(shown, cells)


@pytest.mark.long
def test_minimal_actions_are_those_of_the_full_set(key):
    minimal, full = Breakout(action_set="minimal"), Breakout()
    state, _ = full.reset(key)
    for action, code in enumerate(Breakout.minimal_actions):
        ours = jax.jit(minimal.step)(key, state, jnp.int32(action))[0]
        theirs = jax.jit(full.step)(key, state, jnp.int32(code))[0]
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)


@pytest.mark.long
def test_time_limit_truncates_and_an_ending_at_the_limit_is_no_truncation(key):
    def last(env, length):
        state, _ = env.reset(key)
        step = lambda state, _: env.step(key, state, jnp.int32(3))
        steps = jax.lax.scan(step, state, None, length)[1]
        return np.asarray(steps.terminated), np.asarray(steps.truncated)

    still = Breakout(sticky_action_probability=0.0)  # the paddle goes right: the first ball is lost
    terminated, truncated = last(still, 12)
    end = int(np.argmax(terminated)) + 1
    assert 2 < end < 12
    assert not truncated.any()
    terminated, truncated = last(Breakout(sticky_action_probability=0.0, time_limit=end - 1), end - 1)
    assert truncated.tolist() == [False] * (end - 2) + [True]
    assert not terminated.any()
    terminated, truncated = last(Breakout(sticky_action_probability=0.0, time_limit=end), end)
    assert terminated[-1]
    assert not truncated.any()


@pytest.mark.long
def test_sticky_actions_repeat_as_often_as_asked():
    def repeats(probability, key):
        env = SpaceInvaders(sticky_action_probability=probability)
        state = env.reset(key)[0]._replace(last_action=jnp.int32(1))
        return env.step(key, state, jnp.int32(3))[0].last_action == 1

    keys = jax.random.split(jax.random.key(0), 20_000)
    rates = jax.jit(jax.vmap(lambda p: jnp.mean(jax.vmap(lambda key: repeats(p, key))(keys), dtype=jnp.float32)))
    probabilities = np.array([0.0, 0.1, 0.25, 1.0], np.float32)
    np.testing.assert_allclose(rates(probabilities), probabilities, atol=0.01)


def test_draws_are_uniform():
    keys = jax.random.split(jax.random.key(1), 20_000)
    game = jax.jit(jax.vmap(lambda key: Freeway().reset(key)[0].game))(keys)
    speeds = np.asarray(game.speed)[:, None] >> 4 * np.arange(8) & 15
    rights = np.asarray(game.right)[:, None] >> 4 * np.arange(8) & 1
    for lane in range(8):
        counts = np.bincount(speeds[:, lane] + 5 * rights[:, lane], minlength=11)[1:]
        assert counts.sum() == len(keys)
        np.testing.assert_allclose(counts / len(keys), 0.1, atol=0.01)
    assert abs(np.corrcoef(speeds.T)[~np.eye(8, dtype=bool)]).max() < 0.04
