"""Tag on a grid against the slow one, agent by agent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.tag.grid_world import TagGridState, TagGridWorld
from tests.envs.tag.tag_reference import SlowGrid

CASES = {
    "full": TagGridWorld(num_taggers=3, size=4, time_limit=40),
    "partial, drawn": TagGridWorld(num_taggers=5, size=9, time_limit=60, full_observation=False, start="drawn"),
    "one": TagGridWorld(num_taggers=1, size=2, time_limit=9),
}


def joined(by_group):
    return np.concatenate([np.asarray(by_group["taggers"]), np.asarray(by_group["runners"])])


def drawn(env, rng):
    action = rng.integers(0, 5, env.num_taggers + 1).astype(np.int32)
    return {"taggers": jnp.asarray(action[:-1]), "runners": jnp.asarray(action[-1:])}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_thousand_steps_equal_the_slow_game(name):
    env, rng = CASES[name], np.random.default_rng(0)
    slow, reset, step, key = SlowGrid(env), jax.jit(env.reset), jax.jit(env.step), jax.random.key(0)
    endings = {"terminated": 0, "truncated": 0}
    state, observation = reset(key)
    for t in range(1000):
        np.testing.assert_allclose(
            joined(observation), slow.observe(np.asarray(state.x), np.asarray(state.y), int(state.time)), atol=1e-6
        )
        action = drawn(env, rng)
        before = (np.asarray(state.x), np.asarray(state.y), int(state.time))
        state, timestep = step(key, state, action)
        x, y, rewards, terminated, truncated = slow.step(*before, joined(action))
        assert np.array_equal(state.x, x) and np.array_equal(state.y, y)
        np.testing.assert_allclose(joined(timestep.reward), rewards, atol=1e-6)
        assert (bool(timestep.terminated), bool(timestep.truncated)) == (terminated, truncated)
        assert float(timestep.info["tags"]) == terminated
        observation = timestep.observation
        endings["terminated"] += terminated
        endings["truncated"] += truncated
        if terminated or truncated:
            state, observation = reset(jax.random.key(t))
    assert endings["terminated"] > 3 and (endings["truncated"] > 0 or env.size == 2)


@pytest.mark.long
def test_starts():
    fixed, _ = TagGridWorld().reset(jax.random.key(3))
    assert set(np.asarray(fixed.x)[:-1]) == {5} and (fixed.x[-1], fixed.y[-1]) == (0, 0)
    starts, _ = jax.vmap(TagGridWorld(start="drawn", size=4).reset)(jax.random.split(jax.random.key(0), 50))
    assert set(np.asarray(starts.x)[:, :-1].ravel()) == {1, 2, 3} and not np.asarray(starts.y)[:, -1].any()


@pytest.mark.long
def test_those_who_swap_cells_do_not_touch():
    env = TagGridWorld(num_taggers=1)
    state = TagGridState(x=jnp.array([3, 4]), y=jnp.array([5, 5]), time=jnp.int32(0))
    state, timestep = env.step(jax.random.key(0), state, {"taggers": jnp.array([1]), "runners": jnp.array([2])})
    assert not timestep.terminated and np.array_equal(state.x, [4, 3])


@pytest.mark.long
def test_other_order_of_taggers_same_game():
    env, rng, key = TagGridWorld(num_taggers=4, size=6, start="drawn"), np.random.default_rng(1), jax.random.key(1)
    order = np.array([2, 0, 3, 1])
    state, _ = env.reset(key)
    step = jax.jit(env.step)
    everyone = np.append(order, 4)
    other = state._replace(x=state.x[everyone], y=state.y[everyone])
    for _ in range(30):
        action = drawn(env, rng)
        state, one = step(key, state, action)
        other, two = step(key, other, action | {"taggers": action["taggers"][order]})
        assert np.array_equal(np.asarray(state.x)[everyone], other.x)
        assert np.array_equal(np.asarray(one.reward["taggers"])[order], two.reward["taggers"])
        assert np.array_equal(one.reward["runners"], two.reward["runners"]) and one.terminated == two.terminated
