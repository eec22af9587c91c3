"""Vectorized environments: what an episode's end looks like, and what is counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.host_environment import HostSource
from purerl.loop.vector import vectorize, where
from purerl.prng import GENERATORS, as_generator
from purerl.spaces import Box, Discrete
from purerl.types import Environment, TimeStep, number, pytree

B, T = 4, 60


@pytree
class Counter(Environment):
    """Counts up from a random start by one or two; ends at 10, is cut off after 6 steps. Reward: the count."""

    time_limit: int = number(default=6)

    def reset(self, key):
        start = jax.random.randint(key, (), 0, 5, jnp.int32)
        return (start, jnp.int32(0)), start.astype(jnp.float32)

    def step(self, key, state, action):
        count, time = state[0] + 1 + action, state[1] + 1
        terminated = count >= 10
        truncated = (time >= self.time_limit) & ~terminated
        observation = count.astype(jnp.float32)
        return (count, time), TimeStep(
            observation=observation,
            reward=observation,
            terminated=terminated,
            truncated=truncated,
            info={"doubled": 2 * observation},
        )

    @property
    def observation_space(self):
        return Box(low=0.0, high=12.0, shape=())

    @property
    def action_space(self):
        return Discrete(n=2)


@pytest.fixture(scope="module")
def played():
    """(first observation [B], shown [T, B], steps [T, B], actions [T, B], final state)."""
    vector = vectorize(Counter(), B)

    @jax.jit
    def run(key):
        state, first = vector.reset(key)

        def step(state, key):
            key_action, key_step = jax.random.split(key)
            action = jax.random.randint(key_action, (B,), 0, 2, jnp.int32)
            state, shown, timestep = vector.step(key_step, state, action)
            return state, (shown, timestep, action)

        state, rows = jax.lax.scan(step, state, jax.random.split(key, T))
        return state._replace(resets=None), first, *rows

    return jax.tree.map(np.asarray, run(jax.random.key(3)))


def test_every_episode_by_hand(played):
    """Follow each environment in plain Python, from the observations it was shown at its starts."""
    state, first, shown, timestep, actions = played
    episodes = []
    for b in range(B):
        count, length, total = first[b], 0, 0.0
        for t in range(T):
            count, length = count + 1 + actions[t, b], length + 1
            total += count
            assert timestep.observation[t, b] == count  # the state after the step, even at the end of an episode
            assert timestep.reward[t, b] == count
            assert timestep.terminated[t, b] == (count >= 10)
            assert timestep.truncated[t, b] == (length == 6 and count < 10)
            if count >= 10 or length == 6:
                episodes.append((total, length, 2 * count))
                assert 0 <= shown[t, b] < 5  # the next episode's first
                count, length, total = shown[t, b], 0, 0.0
            else:
                assert shown[t, b] == count
        assert state.episode_return[b] == total and state.episode_length[b] == length
    returns, lengths, doubled = map(np.array, zip(*episodes, strict=True))
    summary = {name: float(value) for name, value in state.statistics.summary().items()}
    assert summary["episodes"] == len(episodes) > 20
    for name, values in (("episode_return", returns), ("episode_length", lengths)):
        np.testing.assert_allclose(summary[name], values.mean(), rtol=1e-6)
        assert summary[f"{name}_min"] == values.min() and summary[f"{name}_max"] == values.max()
    np.testing.assert_allclose(summary["info/doubled"], doubled.mean(), rtol=1e-6)


@pytest.mark.long
def test_starts_differ_in_time_and_between_environments(played):
    _, first, shown, timestep, _ = played
    done = timestep.terminated | timestep.truncated
    starts = np.concatenate([first, shown[done]])
    counts = np.bincount(starts.astype(int), minlength=5)
    assert (counts > 0).all() and counts.max() < 0.5 * len(starts)


def test_parameters_may_be_vmapped():
    """One vectorized environment per time limit: episodes of at most so many steps."""

    def longest(time_limit, key):
        vector = vectorize(Counter(time_limit=time_limit), B)
        state, _ = vector.reset(key)

        def step(state, key):
            state, _, _ = vector.step(key, state, jnp.zeros(B, jnp.int32))
            return state, None

        state, _ = jax.lax.scan(step, state, jax.random.split(key, 20))
        return state.statistics.summary()["episode_length_max"]

    lengths = jax.jit(jax.vmap(longest, (0, None)))(jnp.array([1, 3, 5]), jax.random.key(0))
    assert lengths.tolist() == [1, 3, 5]


def test_where_chooses_per_environment():
    a, b = {"x": jnp.ones((2, 3)), "y": jnp.ones(2)}, {"x": jnp.zeros((2, 3)), "y": jnp.zeros(2)}
    chosen = where(jnp.array([True, False]), a, b)
    assert chosen["x"].tolist() == [[1, 1, 1], [0, 0, 0]] and chosen["y"].tolist() == [1, 0]


@pytest.mark.long_for("fast-PRNGKey", "fast-key", "threefry-key")
@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
@pytest.mark.parametrize("prng", ["fast", "threefry"])
def test_environments_draw_from_the_generator_asked_for_whatever_key_is_given(make, prng):
    seen = []

    @pytree
    class Telling(Counter):
        def reset(self, key):
            seen.append(jax.random.key_impl(key))
            return super().reset(key)

        def step(self, key, state, action):
            seen.append(jax.random.key_impl(key))
            return super().step(key, state, action)

    vector, key = vectorize(Telling(), B, prng=prng), make(3)
    state, first = vector.reset(key)
    vector.step(key, state, vector.sample(key))
    assert set(seen) == {jax.random.key_impl(jax.random.key(0, impl=GENERATORS[prng]))} and len(seen) >= 2
    again = vector.reset(as_generator(key, prng))[1]  # a key of that generator is taken as it is
    np.testing.assert_array_equal(first, again)


def test_an_environment_on_the_host_is_refused():
    class Source(HostSource):
        id = "gymnasium/Catch"

    with pytest.raises(InputError, match="vectorize needs a JAX environment, and gymnasium/Catch runs on the host"):
        vectorize(Source(), 2)


def test_an_unknown_generator_is_refused():
    with pytest.raises(InputError, match="unknown generator 'threefy'"):
        vectorize(Counter(), B, prng="threefy")
