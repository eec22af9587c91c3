"""Evaluation: complete episodes, each counted once, however long the others are."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import evaluate
from purerl.loop.train import make_trainer
from purerl.spaces import Box, Discrete
from purerl.types import Algorithm, Config, Environment, TimeStep, pytree


class CountdownState(NamedTuple):
    left: jax.Array
    passed: jax.Array


@pytree
class Countdown(Environment):
    """Lasts as many steps as its start says. The action must be the number of steps taken, else the reward is -100.

    After its end it gives NaN, which nobody may see.
    """

    def reset(self, key):
        state = CountdownState(jax.random.randint(key, (), 1, 9, jnp.int32), jnp.int32(0))
        return state, state.left.astype(jnp.float32)

    def step(self, key, state, action):
        fits = action == state.passed
        state = CountdownState(state.left - 1, state.passed + 1)
        observation = jnp.where(state.left < 0, jnp.nan, state.left.astype(jnp.float32))
        reward = jnp.where(state.left < 0, jnp.nan, jnp.where(fits, 1.0, -100.0))
        over, even = state.left <= 0, state.passed % 2 == 0
        return state, TimeStep.transition(observation, reward, terminated=over & even, time_up=over)

    @property
    def observation_space(self):
        return Box(low=0.0, high=9.0, shape=())

    @property
    def action_space(self):
        return Discrete(n=100)


class CounterAgent(NamedTuple):
    offset: jax.Array


def counter(spec, config):
    """Act by memory alone: the number of steps since `begin`, one less while exploring."""

    def act(agent, carry, key, observation, explore):
        return carry + agent.offset - (1 if explore else 0), carry + 1, ()

    return Algorithm(
        init=lambda key: CounterAgent(jnp.int32(0)),
        initial_carry=lambda n: jnp.zeros(n, jnp.int32),
        act=act,
        update=lambda a, k, r: (a, {}),
    )


TRAINER = make_trainer(counter, Countdown(), Config())


@pytest.fixture(scope="module")
def result():
    return jax.jit(lambda key: evaluate(TRAINER, CounterAgent(jnp.int32(0)), key, num_episodes=200))(jax.random.key(0))


def test_every_episode_is_played_to_its_end_and_counted_once(result):
    assert result.finished.all()
    np.testing.assert_array_equal(result.episode_return, result.episode_length)
    lengths = np.bincount(result.episode_length, minlength=9)
    assert lengths.sum() == 200 and (lengths[1:9] > 8).all() and lengths[0] == 0


@pytest.mark.long
def test_memory_is_carried_from_the_start(result):
    """The reward tells whether memory counted right; begun one too high, every step is wrong."""
    wrong = evaluate(TRAINER, CounterAgent(jnp.int32(1)), jax.random.key(0), num_episodes=10)
    np.testing.assert_array_equal(wrong.episode_return, -100.0 * np.asarray(wrong.episode_length))


def test_nothing_after_an_end_is_seen(result):
    assert np.isfinite(result.episode_return).all()


def test_cut_off_by_max_steps():
    cut = evaluate(TRAINER, CounterAgent(jnp.int32(0)), jax.random.key(0), num_episodes=50, max_steps=3)
    assert set(np.asarray(cut.episode_length).tolist()) == {1, 2, 3}
    np.testing.assert_array_equal(cut.episode_return, cut.episode_length)
    assert not cut.finished.all() and cut.finished.any()
    assert (cut.episode_length[~cut.finished] == 3).all()


def test_explores_only_when_told():
    seen = evaluate(TRAINER, CounterAgent(jnp.int32(0)), jax.random.key(0), num_episodes=10, explore=True)
    assert (seen.episode_return < 0).all()


@pytest.mark.long
def test_seeds_can_be_vmapped():
    keys = jax.random.split(jax.random.key(1), 3)
    agents = CounterAgent(jnp.zeros(3, jnp.int32))
    many = jax.jit(jax.vmap(lambda agent, key: evaluate(TRAINER, agent, key, num_episodes=20)))(agents, keys)
    assert many.finished.all()
    np.testing.assert_array_equal(many.episode_return, many.episode_length)
    assert not (many.episode_length[0] == many.episode_length[1]).all()
