"""Distributional targets and losses against independent NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.functional.distributional import (
    atoms,
    categorical_divergence,
    expectation,
    project,
    quantile_huber,
    two_hot,
)


def numpy_projection(z, p, support):
    """Bellemare et al.'s algorithm 1, by its loop over atoms and floor and ceiling."""
    v_min, v_max, step = support[0], support[-1], support[1] - support[0]
    m = np.zeros((z.shape[0], support.size))
    for n in range(z.shape[0]):
        for i in range(z.shape[1]):
            b = (min(max(z[n, i], v_min), v_max) - v_min) / step
            low, high = int(np.floor(b)), int(np.ceil(b))
            if low == high:
                m[n, low] += p[n, i]
            else:
                m[n, low] += p[n, i] * (high - b)
                m[n, high] += p[n, i] * (b - low)
    return m


def test_projection_equals_the_papers_loop():
    rng = np.random.default_rng(0)
    support = np.linspace(-3, 4, 15)
    z = rng.normal(scale=3, size=(6, 15))
    z[0] = support
    p = rng.dirichlet(np.ones(15), size=6)
    ours = project(*(jnp.asarray(x, jnp.float32) for x in (z, p, support)))
    assert np.allclose(ours, numpy_projection(z, p, support), atol=1e-5)
    assert np.allclose(ours[0], p[0], atol=1e-6)


@pytest.mark.parametrize("drawn", [False, True])
def test_quantile_huber_equals_a_loop(drawn):
    rng = np.random.default_rng(1)
    quantiles, targets, kappa = rng.normal(size=(4, 5)), rng.normal(size=(4, 3)), 0.7
    tau = rng.uniform(size=(4, 5)) if drawn else np.broadcast_to((2 * np.arange(5) + 1) / 10, (4, 5))
    expected = np.zeros(4)
    for n in range(4):
        for i in range(5):
            for j in range(3):
                u = targets[n, j] - quantiles[n, i]
                h = 0.5 * u * u if abs(u) <= kappa else kappa * (abs(u) - 0.5 * kappa)
                expected[n] += abs(tau[n, i] - (u < 0)) * h / kappa / 3
    levels = jnp.asarray(tau, jnp.float32) if drawn else None
    ours = quantile_huber(jnp.asarray(quantiles, jnp.float32), jnp.asarray(targets, jnp.float32), kappa, levels)
    assert np.allclose(ours, expected, rtol=1e-5)


def test_quantile_regression_finds_the_quantiles():
    targets = jnp.broadcast_to(jnp.linspace(0.0, 10.0, 1001), (1, 1001))
    loss = lambda q: quantile_huber(q, targets, 0.01)[0]
    q = jax.lax.fori_loop(0, 3000, lambda i, q: q - 0.05 * jax.grad(loss)(q), jnp.zeros((1, 5)))
    assert np.allclose(q[0], [1.0, 3.0, 5.0, 7.0, 9.0], atol=0.1)


def test_expectation_is_the_mean():
    support = atoms("c51", 3, -1.0, 3.0)
    assert np.allclose(support, [-1.0, 1.0, 3.0])
    assert float(expectation(jnp.log(jnp.array([0.2, 0.3, 0.5])), support)) == pytest.approx(1.6)


@pytest.mark.long
def test_divergence_by_hand():
    logits, target = jnp.log(jnp.array([[0.5, 0.25, 0.25]])), jnp.array([[0.5, 0.5, 0.0]])
    cross_entropy, divergence = categorical_divergence(logits, target)
    np.testing.assert_allclose(cross_entropy, -0.5 * np.log(0.5) - 0.5 * np.log(0.25), rtol=1e-6)
    np.testing.assert_allclose(divergence, 0.5 * np.log(2.0), rtol=1e-5)


@pytest.mark.long
def test_wrong_shapes_are_refused():
    for wrong in (
        lambda: project(jnp.zeros((2, 3)), jnp.zeros((2, 4)), jnp.arange(3.0)),
        lambda: categorical_divergence(jnp.zeros((2, 3)), jnp.zeros((2, 1))),
        lambda: quantile_huber(jnp.zeros((2, 3)), jnp.zeros((1, 3)), 1.0),
    ):
        with pytest.raises(AssertionError):
            wrong()


def test_two_hot_has_the_mean_and_two_neighbors():
    support = jnp.linspace(-2.0, 2.0, 9)
    x = jnp.array([[-3.0, -2.0, 0.25], [0.6, 1.9, 5.0]])
    found = two_hot(x, support)
    np.testing.assert_allclose(found.sum(-1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(found @ support, np.clip(x, -2.0, 2.0), atol=1e-6)
    np.testing.assert_allclose(found[0, 2], [0, 0, 0, 0, 0.5, 0.5, 0, 0, 0], atol=1e-6)
