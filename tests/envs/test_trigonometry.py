"""Sine and cosine against NumPy's in double precision."""

import jax
import numpy as np

from purerl.envs.trigonometry import sincos, wrap


def test_sincos_to_float32_rounding():
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 4.0, 100.0, 1e4):
        angle = rng.uniform(-scale, scale, 100_000).astype(np.float32)
        sine, cosine = jax.jit(sincos)(angle)
        np.testing.assert_allclose(sine, np.sin(angle.astype(np.float64)), rtol=0, atol=1.3e-7)
        np.testing.assert_allclose(cosine, np.cos(angle.astype(np.float64)), rtol=0, atol=1.3e-7)


def test_sincos_derivatives():
    angle = np.linspace(-7, 7, 1001, dtype=np.float32)
    d_sine = jax.vmap(jax.grad(lambda x: sincos(x)[0]))(angle)
    d_cosine = jax.vmap(jax.grad(lambda x: sincos(x)[1]))(angle)
    np.testing.assert_allclose(d_sine, np.cos(angle), atol=1e-6)
    np.testing.assert_allclose(d_cosine, -np.sin(angle), atol=1e-6)


def test_wrap_moves_by_full_turns():
    angle = np.linspace(-50, 50, 10_001, dtype=np.float32)
    wrapped = np.asarray(wrap(angle), np.float64)
    assert np.abs(wrapped).max() <= np.pi + 1e-5
    np.testing.assert_allclose(np.sin(wrapped), np.sin(angle.astype(np.float64)), atol=2e-5)
    np.testing.assert_allclose(np.cos(wrapped), np.cos(angle.astype(np.float64)), atol=2e-5)
