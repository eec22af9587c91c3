"""Strategies of evosax by name: they climb, take their settings from the options, and need the package."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.evolution.evosax_adapter import Evosax
from purerl.evolution.strategies import OpenES, make_strategy
from purerl.settings.options import EvolveOptions


def test_a_strategy_of_evosax_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "evosax.algorithms", None)
    with pytest.raises(InputError, match=r"evosax is not installed: pip install 'purerl\[evosax\]'"):
        make_strategy(EvolveOptions(strategy="cma_es"), 3)
    assert make_strategy(EvolveOptions(), 3) == OpenES()


def test_the_settings_of_the_options_reach_evosax():
    found = make_strategy(EvolveOptions(strategy="cma_es", population=6, sigma=0.25), 3)
    assert isinstance(found, Evosax) and found.population == 6 and not found.antithetic
    state = found.init(jnp.arange(3.0))
    np.testing.assert_array_equal(found.mean(state), np.arange(3.0))
    assert float(found.sigma(state)) == 0.25
    candidates, _ = found.ask(state, jax.random.key(0))
    assert candidates.shape == (6, 3) and np.abs(candidates - np.arange(3.0)).max() < 2.0
