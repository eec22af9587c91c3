"""The strategies by name: each is a class of evosax that an evolution can be made of."""

import evosax.algorithms
import jax
import jax.numpy as jnp
import pytest

from purerl.catalog.strategies import EVOSAX, OWN, STRATEGIES
from purerl.evolution.strategies import make_strategy
from purerl.settings.options import EvolveOptions


def test_every_name_is_of_an_algorithm():
    assert all(isinstance(getattr(evosax.algorithms, name), type) for name in EVOSAX.values())
    assert set(STRATEGIES) == {*OWN, *EVOSAX} and len(STRATEGIES) == len(set(STRATEGIES))


@pytest.mark.long_for(*(name for name in STRATEGIES if name not in ("openes", "sep_cma_es")))
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_name_makes_a_strategy(name):
    """A generation keeps the shapes and dtypes of its state, and starts with the sigma of the options."""
    strategy = make_strategy(EvolveOptions(strategy=name, population=8, sigma=0.25), 5)
    state = jax.eval_shape(strategy.init, jnp.zeros(5))

    def generation(state, key):
        candidates, state = strategy.ask(state, key)
        assert candidates.shape == (8, 5)
        return strategy.tell(state, candidates, -jnp.sum(candidates**2, axis=1))

    assert jax.eval_shape(generation, state, jax.random.key(0)) == state
    start = strategy.init(jnp.ones(5))
    assert jnp.allclose(strategy.mean(start), 1.0)
    assert jnp.allclose(strategy.sigma(start), 0.25)
