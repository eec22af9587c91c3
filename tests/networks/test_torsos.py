"""Torsos: residual blocks by hand, and counts that go in by their logarithm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.networks.torsos import ResidualMLP, Torso, apply, init
from purerl.spaces import Box


@pytest.mark.long
def test_residual_blocks_by_hand(key):
    """Two blocks of one width, then one of another, in NumPy."""
    module = ResidualMLP(hidden_sizes=(4, 4, 6), activation="relu")
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    params = init(module, key, jnp.zeros((1, 3)))
    given = jax.tree.map(lambda x: np.asarray(x, np.float64), params)

    def dense(index, x):
        layer = given[f"Dense_{index}"]
        return x @ layer["kernel"] + layer["bias"]

    def norm(index, x):
        layer = given[f"LayerNorm_{index}"]
        standard = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-6)
        return standard * layer["scale"] + layer["bias"]

    y = dense(0, x.astype(np.float64))
    y = y + dense(2, np.maximum(dense(1, norm(0, y)), 0.0))
    y = y + dense(4, np.maximum(dense(3, norm(1, y)), 0.0))
    y = dense(5, y)
    y = y + dense(7, np.maximum(dense(6, norm(2, y)), 0.0))
    np.testing.assert_allclose(apply(module, params, jnp.asarray(x)), norm(3, y), rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_a_count_goes_in_by_its_logarithm(key):
    """What a network makes of one number that counts is what it makes of the logarithm; arrays stay as they are."""
    count, number = (Torso(space=Box(low=-9999, high=9999, dtype=dtype)) for dtype in (jnp.int32, jnp.float32))
    steps = jnp.array([0, 1, -1, 4000])
    params = init(count, key, steps)
    told = jnp.array([0.0, np.log(2.0), -np.log(2.0), np.log(4001.0)])
    np.testing.assert_allclose(apply(count, params, steps), apply(number, params, told), atol=1e-5)
    several = Torso(space=Box(low=0, high=9999, shape=(2,), dtype=jnp.int32))
    both = jnp.array([[3, 4000]])
    params = init(several, key, both)
    as_floats = Torso(space=Box(low=0.0, high=9999.0, shape=(2,)))
    np.testing.assert_array_equal(apply(several, params, both), apply(as_floats, params, both.astype(jnp.float32)))
