"""Situations, a look one move ahead, and games against an opponent, played by hand on Nim."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl import InputError
from purerl.prng import fast
from purerl.spaces import Discrete
from purerl.types import Environment, TimeStep, pytree
from purerl.wrappers import Against, Situations, at_random, lookahead
from purerl.wrappers.situations import sides, without_future
from tests.helpers.nim import Nim, Pile

GAME = Situations(Nim())


def situation(left, second):
    state = Pile(jnp.int32(left), jnp.bool_(second))
    return GAME._situation(state, Nim().observe(state))


@pytest.mark.long
def test_one_agent_makes_the_moves_of_both_sides():
    state, first = GAME.reset(jax.random.key(0))
    assert GAME.action_space.n == 2 and set(GAME.observation_space.spaces) == {"observation", "action_mask"}
    left, side, over = 7, int(state.side), False
    assert side == int(state.state.second) and first.observation["observation"].shape == (8,)
    while not over:
        action = 1 if left > 4 else 0  # two, then one each
        state, step = GAME.step(jax.random.key(1), state, jnp.int32(action))
        left, side = left - 1 - action, 1 - side
        over = left == 0
        assert float(step.reward) == (1.0 if over else 0.0), "who moves last has won"
        assert bool(step.terminated) == over and int(state.side) == side == int(step.observation.side)
        np.testing.assert_array_equal(state.observation["observation"], np.eye(8)[left])
    np.testing.assert_array_equal(jax.tree.leaves(GAME.observe(state))[0], jax.tree.leaves(state)[0])


def test_an_environment_of_one_agent_stays_as_it_is():
    plain = purerl.make("CartPole-v1")
    shown = Situations(plain)
    assert sides(plain) == () and shown.observation_space.struct == plain.observation_space.struct
    state, seen = plain.reset(jax.random.key(3))
    situation, _ = shown.reset(jax.random.key(3))
    _, step = plain.step(jax.random.key(4), state, jnp.int32(1))
    after, other = shown.step(jax.random.key(4), situation, jnp.int32(1))
    np.testing.assert_array_equal(situation.observation, seen)
    np.testing.assert_array_equal(after.observation, step.observation)
    assert float(other.reward) == float(step.reward) and int(after.side) == 0
    np.testing.assert_array_equal(shown.render(after), plain.render(after.state))
    assert shown.render_text(after) == plain.render_text(after.state)


@pytest.mark.long_for("only one")
@pytest.mark.parametrize(
    ("left", "choices"),
    [(1, {0}), (2, {1}), (3, {0, 1}), (4, {0}), (5, {0, 1}), (7, {0, 1})],
    ids=["only one", "wins", "is lost", "does not let the other win", "either", "too far to see"],
)
def test_a_look_ahead(left, choices):
    """With two left two win; from four, two would leave two."""
    choose = jax.jit(jax.vmap(partial(lookahead, GAME), in_axes=(0, None)))
    for second in (False, True):
        actions = choose(jax.random.split(fast(jax.random.key(left)), 64), situation(left, second))
        assert set(np.asarray(actions).tolist()) == choices


def test_random_moves_are_legal():
    draw = jax.vmap(partial(at_random, GAME), in_axes=(0, None))
    keys = jax.random.split(fast(jax.random.key(0)), 64)
    assert set(np.asarray(draw(keys, situation(1, True))).tolist()) == {0}
    assert set(np.asarray(draw(keys, situation(5, True))).tolist()) == {0, 1}


def by_one(game, key, situation):
    """An opponent that takes one."""
    return jnp.int32(0)


def test_a_game_against_an_opponent():
    """Whoever moves first takes one of 7, and so on: the side that begins takes the 7th."""
    env = Against(GAME, opponent=by_one)
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    seen = set()
    for key in jax.random.split(fast(jax.random.key(2)), 24):
        state, observed = reset(key)
        left = int(jnp.argmax(observed.observation["observation"]))
        begins = left == 7
        assert left in (6, 7) and int(observed.side) == int(state.outer)
        total, steps, done = 0.0, 0, False
        while not done:
            state, timestep = step(key, state, jnp.int32(0))
            total, steps, done = total + float(timestep.reward), steps + 1, bool(timestep.terminated)
        assert total == (1.0 if begins else -1.0) and steps == (4 if begins else 3)
        seen.add((begins, int(state.outer)))
    assert len(seen) == 4, "either side, first or second"
    assert "left" in env.render_text(state)


class Dice(NamedTuple):
    key: jax.Array
    raw: dict
    sum: jax.Array


@pytree
class KeptKey(Environment):
    """Draws from a key in its state, as jumanji does: whoever knows the state knows what comes."""

    observation_space = Discrete(n=100)
    action_space = Discrete(n=2)

    def reset(self, key):
        state = Dice(
            key, {"rng_key": jax.random.bits(key, (2,), jnp.uint32), "age": jnp.zeros(2, jnp.uint32)}, jnp.int32(0)
        )
        return state, state.sum

    def step(self, key, state, action):
        thrown = jax.random.randint(state.key, (), 1, 7)
        state = state._replace(key=jax.random.split(state.key, 1)[0], sum=state.sum + thrown)
        return state, TimeStep.transition(state.sum, thrown.astype(jnp.float32))


@pytest.mark.long
def test_a_model_does_not_know_what_is_to_be_drawn():
    env = Situations(KeptKey())
    state, _ = env.reset(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 200)
    really = jax.vmap(lambda key: env.step(key, state, jnp.int32(0))[1].reward)(keys)
    imagined = jax.vmap(lambda key: env.model(key, state, jnp.int32(0)).reward)(keys)
    assert len(set(really.tolist())) == 1 and set(imagined.tolist()) == {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}


def test_keys_are_renewed_and_nothing_else():
    state, _ = KeptKey().reset(jax.random.key(0))
    other = without_future(jax.random.key(9), state)
    assert (
        other.key.dtype == state.key.dtype and (jax.random.key_data(other.key) != jax.random.key_data(state.key)).any()
    )
    assert (other.raw["rng_key"] != state.raw["rng_key"]).all() and other.raw["rng_key"].dtype == jnp.uint32
    np.testing.assert_array_equal(other.raw["age"], state.raw["age"])
    assert int(other.sum) == int(state.sum)


@pytest.mark.long_for("CoinGame-the agents of CoinGame act at the same time", "TagGridWorld-act at the same time")
@pytest.mark.parametrize(
    ("name", "words"),
    [("CoinGame", "the agents of CoinGame act at the same time"), ("TagGridWorld", "act at the same time")],
)
def test_other_groups_are_refused(name, words):
    with pytest.raises(InputError, match=words):
        sides(purerl.make(name))


def test_a_model_draws_anew():
    env = Situations(KeptKey())
    state, _ = env.reset(jax.random.key(0))
    imagined = [float(env.model(jax.random.key(seed), state, jnp.int32(0)).reward) for seed in range(8)]
    assert len(set(imagined)) > 1
