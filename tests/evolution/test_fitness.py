"""Fitness without NaN, standardized and as ranks."""

import jax.numpy as jnp
import numpy as np
import pytest

from purerl.evolution.fitness import centered_ranks, nan_is_worst, standardize


@pytest.mark.long
def test_nan_is_worst():
    nan = np.nan
    shaped = np.asarray(nan_is_worst(jnp.array([5.0, nan, 3.0, 4.0, nan])))
    np.testing.assert_array_equal(shaped[[0, 2, 3]], [5.0, 3.0, 4.0])
    assert shaped[1] == shaped[4] < 3.0 and np.isfinite(shaped).all()
    np.testing.assert_array_equal(np.sign(standardize(nan_is_worst(jnp.array([2.0, nan, 2.0, nan])))), [1, -1, 1, -1])
    np.testing.assert_array_equal(nan_is_worst(jnp.array([nan, nan])), 0.0)
    np.testing.assert_allclose(centered_ranks(jnp.array([3.0, 1.0, 2.0])), [0.5, -0.5, 0.0])
    np.testing.assert_array_equal(centered_ranks(jnp.array([1.0, 1.0])), 0.0)
