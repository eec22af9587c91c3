"""Optimizers against their equations in NumPy."""

import jax
import numpy as np
import optax
import pytest

from purerl.algo_parts.optimizers import adam, clipped, radam, rmsprop

GRADIENT = {"w": np.array([[3.0, 0.0], [0.0, -4.0]], np.float32), "b": np.array([12.0], np.float32)}  # of norm 13
PARAMS = jax.tree.map(np.zeros_like, GRADIENT)


def step(optimizer, times=1):
    """Return the parameters after gradient steps from zero, each with GRADIENT."""
    state, params = optimizer.init(PARAMS), PARAMS
    for _ in range(times):
        with jax.numpy_dtype_promotion("standard"):
            updates, state = jax.jit(optimizer.update)(GRADIENT, state, params)
            params = optax.apply_updates(params, updates)
    return params


def close(found, function):
    for name, gradient in GRADIENT.items():
        np.testing.assert_allclose(found[name], function(gradient.astype(np.float64)), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("norm", "scale"), [(6.5, 0.5), (26.0, 1.0), (None, 1.0)])
def test_the_norm_is_that_of_all_arrays_together(norm, scale):
    close(step(clipped(optax.sgd(1.0), norm)), lambda g: -scale * g)


def test_first_steps_by_their_equations():
    close(step(adam(0.1, 6.5)), lambda g: -0.1 * 0.5 * g / (np.abs(0.5 * g) + 1e-5))
    close(step(rmsprop(0.1, 6.5)), lambda g: -0.1 * 0.5 * g / np.sqrt(0.01 * (0.5 * g) ** 2 + 1e-5))


def test_radam_begins_with_momentum_alone():
    """Until the variance of its second moment is known, rectified Adam takes steps of the bias-corrected mean."""
    close(step(radam(0.1), times=2), lambda g: -0.1 * 2 * g)


def test_adam_sees_clipped_gradients():
    """A gradient of norm 13, clipped to 6.5, then a small one: both moments are those of the clipped ones."""
    optimizer = adam(0.1, 6.5)
    state, params = optimizer.init(PARAMS), PARAMS
    small = jax.tree.map(lambda g: np.sign(g) * np.float32(0.5), GRADIENT)
    for gradient in (GRADIENT, small):
        with jax.numpy_dtype_promotion("standard"):
            updates, state = jax.jit(optimizer.update)(gradient, state, params)
            params = optax.apply_updates(params, updates)
    for name, large in GRADIENT.items():
        gradients, expected, first, second = (0.5 * large, 0.5 * np.sign(large)), 0.0, 0.0, 0.0
        for t, g in enumerate(gradients, 1):
            first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
            expected = expected - 0.1 * first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-5)
        np.testing.assert_allclose(params[name], expected, rtol=1e-4, atol=1e-7)
