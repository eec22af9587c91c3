"""Frozen lake against the table of transitions of Gymnasium's."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.grid.frozen_lake import MAP_8X8, FrozenLake, FrozenLakeState
from purerl.errors import InputError

NUM = 6000


def table(name, success_rate=1 / 3):
    return gymnasium.make("FrozenLake-v1", map_name=name, success_rate=success_rate).unwrapped.P


@pytest.mark.parametrize(("name", "success_rate"), [("4x4", 1 / 3), ("8x8", 0.7)])
def test_transitions(name, success_rate, key):
    env = FrozenLake(success_rate=success_rate, **({"lake": MAP_8X8} if name == "8x8" else {}))
    side = len(env.lake)
    oracle = table(name, success_rate)
    pairs = np.array([(s, a) for s in oracle for a in oracle[s] if env.lake[s // side][s % side] in "SF"], np.int32)

    def sample(pair):
        state = FrozenLakeState(row=pair[0] // side, column=pair[0] % side, time=jnp.int32(0))
        return jax.vmap(lambda k: env.step(k, state, pair[1])[1])(jax.random.split(key, NUM))

    step = jax.tree.map(np.asarray, jax.jit(jax.vmap(sample))(jnp.asarray(pairs)))
    for row, (s, a) in enumerate(pairs):
        expected = np.zeros(side * side)
        for probability, successor, reward, terminated in oracle[s][a]:
            expected[successor] += probability
            there = step.observation[row] == successor
            assert np.all(step.reward[row][there] == reward)
            assert np.all(step.terminated[row][there] == terminated)
        frequency = np.bincount(step.observation[row], minlength=side * side) / NUM
        np.testing.assert_allclose(frequency, expected, atol=5 * np.sqrt(0.25 / NUM))
        assert np.all(frequency[expected == 0] == 0)


@pytest.mark.parametrize(("name", "limit"), [("4x4", 100), ("8x8", 200)])
def test_best_return_is_the_docstrings(name, limit):
    oracle = table(name)
    value = np.zeros(len(oracle))
    for _ in range(limit):
        value = np.array(
            [
                max(sum(p * (r + (1 - end) * value[n]) for p, n, r, end in oracle[s][a]) for a in range(4))
                for s in oracle
            ]
        )
    assert f"{value[0]:.4f}" in FrozenLake.__doc__


def test_time_limit_and_start(key):
    env = FrozenLake(time_limit=3)
    state, observation = env.reset(key)
    assert int(observation) == 0
    seen = []
    for _ in range(3):
        state, step = jax.jit(env.step)(key, state._replace(row=jnp.int32(0), column=jnp.int32(0)), jnp.int32(0))
        seen.append(bool(step.truncated))
    assert seen == [False, False, True]


@pytest.mark.parametrize("lake", [("SF", "F"), ("FF", "FG"), ("SX", "FG"), ("SS", "FG")])
def test_bad_maps(lake):
    with pytest.raises(InputError, match="lake must have"):
        FrozenLake(lake=lake)
