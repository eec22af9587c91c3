"""Dual variables by hand."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.optim.trust_region import LEAST, Duals, initial_duals, positive, trust_loss


def test_the_first_values_are_those_asked_for():
    duals = positive(initial_duals(SimpleNamespace(initial_temperature=0.3, initial_kl_weight=40.0)))
    np.testing.assert_allclose(np.array(duals), np.array([0.3, 40.0, 40.0]) + LEAST, rtol=1e-5)


@pytest.mark.parametrize("value", [88.0, 100.0, 1000.0])
def test_large_ones_too(value):
    duals = positive(initial_duals(SimpleNamespace(initial_temperature=value, initial_kl_weight=1e-3)))
    np.testing.assert_allclose(np.array(duals), np.array([value, 1e-3, 1e-3]) + LEAST, rtol=1e-4)


def test_no_parameter_gives_a_value_below_the_least():
    duals = positive(Duals(*(jnp.float32(-1e6) for _ in range(3))))
    assert all(float(value) == pytest.approx(LEAST) for value in duals)


def test_the_loss_and_its_two_gradients_by_hand():
    config = SimpleNamespace(kl_epsilon=0.1, spread_kl_epsilon=0.5)
    duals = Duals(jnp.float32(1.0), jnp.float32(2.0), jnp.float32(3.0))
    kl, spread_kl = jnp.float32(0.4), jnp.float32(0.2)
    assert float(trust_loss(duals, kl, spread_kl, config)) == pytest.approx(2 * 0.1 + 3 * 0.5)
    of_duals, of_kl, of_spread = jax.grad(trust_loss, argnums=(0, 1, 2))(duals, kl, spread_kl, config)
    np.testing.assert_allclose(np.array(of_duals), [0.0, 0.1 - 0.4, 0.5 - 0.2], rtol=1e-6)  # raised beyond its bound
    assert (float(of_kl), float(of_spread)) == (2.0, 3.0)
