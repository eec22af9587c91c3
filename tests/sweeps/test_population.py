"""Population-based training: exploit and explore by hand."""

import dataclasses

import jax
import numpy as np
import pytest

from purerl import LogUniform, Uniform
from purerl.settings.options import RunOptions, SearchOptions
from purerl.settings.runs import settings
from purerl.sweeps import population
from purerl.sweeps.plan import make_sweep_plan


def test_exploit_and_explore():
    scores = np.float32([3, -np.inf, 9, 1, 5, 8, 2, 7, 6, 4])
    keys = jax.random.split(jax.random.key(0), 20)
    drawn = np.asarray(jax.vmap(population.exploit, (0, None))(keys, jax.numpy.asarray(scores)))
    worst, best = [1, 3], [2, 5]
    kept = [i for i in range(10) if i not in worst]
    assert (drawn[:, kept] == kept).all()
    assert set(drawn[:, worst].ravel().tolist()) == set(best)
    equal = population.exploit(jax.random.key(0), jax.numpy.full(10, -np.inf))
    assert equal.tolist() == list(range(10)), "nobody is better than another"
    value = np.full(4000, 0.01, np.float32)
    new = np.asarray(population.explore(jax.random.key(0), value, LogUniform(1e-4, 1.0)))
    times = np.isclose(new, 0.008) | np.isclose(new, 0.0125)
    np.testing.assert_allclose(times.mean(), 0.75, atol=0.03)
    np.testing.assert_allclose(np.log10(new[~times]).mean(), -2, atol=0.15)  # resampled over all orders of magnitude
    edge = np.asarray(population.explore(jax.random.key(1), np.full(100, 11.9, np.float32), Uniform(8, 12)))
    assert edge.min() >= 8 and edge.max() == 12


def test_small_integers_move():
    """Three of four are moved by a factor, at least by one; the others are sampled again."""
    dimension = dataclasses.replace(Uniform(0, 40), whole=True)
    for value, down, up in ((1, 0, 2), (2, 1, 3), (10, 8, 13)):
        new = np.asarray(population.explore(jax.random.key(value), np.full(4000, value, np.int32), dimension))
        assert new.dtype == np.int32 and new.min() >= 0 and new.max() <= 40
        np.testing.assert_allclose([(new == down).mean(), (new == up).mean()], 0.375 + 0.25 / 41, atol=0.03)
        assert (new == value).mean() < 0.02
    new = np.asarray(population.explore(jax.random.key(0), np.zeros(4000, np.float32), Uniform(0, 1)))
    np.testing.assert_allclose([new.mean(), (new == 0).mean()], [0.5, 0], atol=0.03)


@pytest.mark.long
def test_each_member_begins_as_an_agent_of_its_own():
    small = {"num_envs": 2, "rollout_length": 4, "hidden_sizes": (4,), "total_timesteps": 16}
    run = dataclasses.replace(settings("a2c", "CartPole-v1", small), options=RunOptions(seeds=2))
    search = SearchOptions(method="pbt", trials=5, generations=2)
    members = population.Population(make_sweep_plan(run, search, {"learning_rate": LogUniform(1e-4, 1e-3)}))
    members.advance()
    state = members.bank.state
    assert len(np.unique(jax.random.key_data(state.key), axis=0)) == 10
    parameters = np.concatenate([np.asarray(x).reshape(10, -1) for x in jax.tree.leaves(state.agent.params)], axis=1)
    assert len(np.unique(parameters, axis=0)) == 10, "nobody is replaced before an episode ends"


def test_seeds_of_members():
    seeds = np.arange(3, 10, dtype=np.uint32)
    drawn = population.member_seeds(np.arange(7 * 1000), seeds)
    assert len(np.unique(drawn)) == 7000 and (drawn[:7] == seeds).all(), "the first member has the population's seed"
