"""Evolution strategies against evosax, against NumPy, and on functions whose best point is known."""

import evosax.algorithms as evosax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from purerl.errors import InputError
from purerl.evolution.fitness import centered_ranks, standardize
from purerl.evolution.strategies import (
    SNES,
    Evosax,
    OpenES,
    check_population,
    make_strategy,
    utilities,
)
from purerl.settings.options import EvolveOptions

N = 7
TARGET = np.linspace(-1, 1, N, dtype=np.float32)


def bowl(candidates):
    """The fitness of a bowl with its top at TARGET."""
    return -jnp.sum((candidates - TARGET) ** 2, axis=-1)


@pytest.mark.long_for("False-adam", "True-adam", "True-sgd")
@pytest.mark.parametrize("optimizer", [optax.adam, optax.sgd])
@pytest.mark.parametrize("antithetic", [True, False])
def test_openes_takes_evosax_steps(optimizer, antithetic):
    """The same keys and fitness, ten generations: candidates and means agree."""
    ours = OpenES(
        population=10, antithetic=antithetic, optimizer=optimizer, start_sigma=0.1, learning_rate=0.05,
        sigma_decay=1.0, learning_rate_decay=1.0,
    )  # fmt: skip
    theirs = evosax.Open_ES(
        10, jnp.zeros(N), antithetic, optimizer(0.05), optax.constant_schedule(0.1), lambda x, fitness, *_: fitness
    )
    mean = jnp.full(N, 0.3)
    with jax.numpy_dtype_promotion("standard"):
        state, reference = ours.init(mean), theirs.init(jax.random.key(0), mean, theirs.default_params)
        for generation in range(10):
            key = jax.random.key(generation)
            candidates, state = ours.ask(state, key)
            expected, reference = theirs.ask(key, reference, theirs.default_params)
            np.testing.assert_allclose(candidates, expected, atol=1e-6)
            fitness = standardize(bowl(candidates))
            state = ours.tell(state, candidates, fitness)
            reference, _ = theirs.tell(key, candidates, -fitness, reference, theirs.default_params)
            np.testing.assert_allclose(ours.mean(state), reference.mean, atol=1e-6)
    assert np.abs(ours.mean(state) - mean).max() > 0.1


def test_antithetic_candidates_mirror_the_mean(key):
    strategy = OpenES(population=8)
    candidates, _ = strategy.ask(strategy.init(jnp.ones(N)), key)
    np.testing.assert_allclose(candidates[:4] + candidates[4:], 2.0, atol=1e-6)
    assert np.std(candidates[:, 0]) > 0


def test_sigma_and_rate_fall_to_their_floors(key):
    strategy = OpenES(population=2, start_sigma=0.4, sigma_decay=0.5, least_sigma=0.15)
    state = strategy.init(jnp.zeros(N))
    sigmas = []
    for _ in range(3):
        sigmas.append(float(strategy.sigma(state)))
        state = strategy.tell(state, strategy.ask(state, key)[0], jnp.array([1.0, -1.0]))
    np.testing.assert_allclose(sigmas, [0.4, 0.2, 0.15], rtol=1e-6)


def climb(strategy, generations=150, start=1.0):
    """Return (distance to the target, sigma) after so many generations, in one compiled loop."""

    def step(state, key):
        candidates, state = strategy.ask(state, key)
        return strategy.tell(state, candidates, centered_ranks(bowl(candidates))), None

    state = jax.lax.scan(step, strategy.init(jnp.full(N, start)), jax.random.split(jax.random.key(1), generations))[0]
    return jnp.linalg.norm(strategy.mean(state) - TARGET), strategy.sigma(state)


@pytest.mark.long
def test_strategies_climb():
    cma = evosax.Sep_CMA_ES(population_size=16, solution=jnp.zeros(N))
    for strategy in (
        OpenES(population=16, learning_rate=0.05),
        SNES(population=16, start_sigma=0.3),
        Evosax(strategy=cma),
    ):
        distance, _ = jax.jit(lambda strategy=strategy: climb(strategy))()
        assert distance < 0.25, type(strategy).__name__
    distance, sigma = jax.jit(lambda: climb(SNES(population=16, start_sigma=0.3)))()
    assert distance < 1e-3 and sigma < 1e-3  # its deviations adapt


def test_sigma_and_learning_rate_can_be_vmapped():
    rates = jnp.array([1e-5, 0.03])
    far, near = jax.jit(jax.vmap(lambda r, s: climb(OpenES(population=8, learning_rate=r, start_sigma=s))[0]))(
        rates, jnp.array([0.02, 0.1])
    )
    assert far > 1.0 > 0.7 > near


def test_snes_by_hand(key):
    """One generation in NumPy from the equations."""
    strategy = SNES(population=6, antithetic=False, start_sigma=0.5)
    state = strategy.init(jnp.zeros(N))
    candidates, state = strategy.ask(state, key)
    fitness = np.array([3.0, 1.0, 2.0, 6.0, 5.0, 4.0], np.float32)
    raw = np.maximum(0, np.log(4) - np.log(np.arange(1, 7)))
    utility = (raw / raw.sum() - 1 / 6)[np.argsort(np.argsort(-fitness))]
    z = np.asarray(candidates) / 0.5
    after = strategy.tell(state, candidates, jnp.asarray(fitness))
    np.testing.assert_allclose(after.mean, 0.5 * utility @ z, rtol=1e-4, atol=1e-6)
    rate = (3 + np.log(N)) / (5 * np.sqrt(N))
    np.testing.assert_allclose(after.deviation, 0.5 * np.exp(0.5 * rate * utility @ (z**2 - 1)), rtol=1e-4)
    np.testing.assert_allclose(utilities(jnp.array([1.0, 1.0, 1.0, 1.0])), 0.0, atol=1e-7)  # ties share


def test_odd_populations_are_refused():
    with pytest.raises(InputError, match="population is 7; antithetic sampling needs pairs: use 8, or turn it off"):
        check_population(7, True)
    with pytest.raises(InputError, match="population is 1; it must be at least 2"):
        check_population(1, False)
    check_population(7, False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategy": "cma-es"}, r"unknown strategy 'cma-es': did you mean 'cma_es'\? allowed: ars, .*snes, xnes$"),
        ({"strategy": "evosax:openes"}, r"unknown strategy 'evosax:openes': .*allowed: ars"),
        ({"strategy": "snes", "sigma_decay": 0.9}, "sigma_decay is not an option of the strategy snes; openes has it"),
        ({"strategy": "cma_es", "antithetic": False}, "antithetic is not an option of the strategy cma_es"),
        ({"strategy": "pgpe", "population": 5}, "PGPE of evosax rejects a population of 5: "),
    ],
)
def test_a_strategy_that_cannot_be_is_one_line(changes, message):
    with pytest.raises(InputError, match=message) as caught:
        make_strategy(EvolveOptions(**{"population": 4} | changes), 3)
    assert "\n" not in str(caught.value)
