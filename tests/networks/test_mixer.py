"""Mixers of the values of a team's agents."""

import jax
import numpy as np
import pytest

from purerl.networks.mixer import adding, mixing
from purerl.spaces import Box

STATE = Box(low=-1, high=1, shape=(4,))


@pytest.mark.long
def test_a_mixed_value_never_falls_in_an_agents():
    mixer = mixing(STATE, 3, 32)
    params, rng = mixer.init(jax.random.key(0)), np.random.default_rng(0)
    values, state = rng.normal(size=(64, 3)).astype(np.float32), rng.normal(size=(64, 4)).astype(np.float32)
    slope = jax.grad(lambda q: mixer.apply(params, q, {"global_state": state}).sum())(values)
    assert slope.shape == (64, 3) and (slope >= 0).all() and (slope > 0).mean() > 0.9


@pytest.mark.long
def test_agents_of_low_value_learn():
    mixer = mixing(Box(low=-1, high=1, shape=(54,)), 3, 32, "normal")
    params, rng = mixer.init(jax.random.key(0)), np.random.default_rng(0)
    state = rng.uniform(-1, 1, size=(64, 54)).astype(np.float32)
    slope = jax.grad(lambda q: mixer.apply(params, q, {"global_state": state}).sum())
    high, low = (slope(np.full((64, 3), value, np.float32)).mean() for value in (0.0, -20.0))
    assert low > 0.2 * high


@pytest.mark.long
def test_a_mixed_value_equals_numpy():
    mixer = mixing(STATE, 3, 8)
    params, rng = mixer.init(jax.random.key(0)), np.random.default_rng(0)
    params = jax.tree.map(lambda x: np.asarray(x) + rng.normal(size=x.shape).astype(np.float32), params)
    values, state = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(5, 4)).astype(np.float32)
    layer = lambda name, x: x @ params[name]["kernel"] + params[name]["bias"]
    hidden = np.einsum("bi,bij->bj", values, np.abs(layer("w1", state)).reshape(5, 3, 8)) + layer("b1", state)
    hidden = np.where(hidden > 0, hidden, np.expm1(hidden))
    b2 = layer("b2_out", np.maximum(layer("b2", state), 0.0))[:, 0]
    expected = (hidden * np.abs(layer("w2", state))).sum(axis=1) + b2
    found = mixer.apply(params, values, {"global_state": state})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(adding().apply({}, values, {}), values.sum(axis=1), rtol=1e-6)
