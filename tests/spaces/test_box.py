"""Boxes: samples reach both bounds, bounds may be traced, invalid values are refused."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.spaces import Box
from tests.helpers.refusals import refused


@pytest.mark.long
def test_box_samples_reach_both_bounds(key):
    draws = jax.vmap(Box(low=-2.0, high=3.0, shape=(4, 2)).sample)(jax.random.split(key, 2000))
    assert draws.min() >= -2 and draws.max() <= 3
    np.testing.assert_allclose([draws.min(), draws.mean(), draws.max()], [-2, 0.5, 3], atol=0.05)
    integers = jax.vmap(Box(low=-3, high=2, shape=(6,), dtype=jnp.int32).sample)(jax.random.split(key, 200))
    assert set(np.unique(integers)) == {-3, -2, -1, 0, 1, 2}
    octets = jax.vmap(Box(low=0, high=255, shape=(8, 8, 3), dtype=jnp.uint8).sample)(jax.random.split(key, 50))
    assert octets.min() == 0 and octets.max() == 255
    line = jax.vmap(Box(low=-jnp.inf, high=jnp.inf, shape=(3,)).sample)(jax.random.split(key, 2000))
    np.testing.assert_allclose([line.mean(), line.std()], [0, 1], atol=0.05)


def test_bounds_may_be_traced_and_vmapped(key):
    highs = jnp.array([1.0, 10.0])
    sample = lambda high: Box(low=0.0, high=high, shape=(1000,)).sample(key)
    np.testing.assert_allclose(jax.jit(jax.vmap(sample))(highs).max(1), highs, rtol=0.01)


def test_clip_moves_to_the_nearest_point():
    space = Box(low=np.array([0.0, -1.0]), high=np.array([1.0, 5.0]), shape=(2,))
    np.testing.assert_array_equal(space.clip(jnp.array([[2.0, 2.0], [-3.0, 9.0]])), [[1.0, 2.0], [0.0, 5.0]])


@pytest.mark.long_for("0-4294967295-uint32", "5-2147483647-int32")
@pytest.mark.parametrize(
    ("low", "high", "dtype"), [(-(2**31), 2**31 - 1, "int32"), (0, 2**32 - 1, "uint32"), (5, 2**31 - 1, "int32")]
)
def test_integers_of_all_words(low, high, dtype, key):
    space = Box(low=np.array(low), high=np.array(high), shape=(4000,), dtype=jnp.dtype(dtype))
    drawn = np.asarray(space.sample(key), np.float64)
    width = float(high) - low
    assert drawn.min() >= low and drawn.max() <= high
    for found in (drawn.mean(), np.median(drawn)):
        assert abs(found - low - width / 2) < 0.05 * width


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(1.0, -1.0, (2,)), "low is 1.0 and high is -1.0; low must not be larger"),
        (lambda: Box(np.zeros(3), np.ones(3), (2,)), r"low has the shape \(3,\), which does not broadcast to \(2,\)"),
        (lambda: Box(np.zeros(3), np.ones(2)), r"low and high have the shapes \(3,\) and \(2,\)"),
        (lambda: Box(np.nan, 1.0), "low is nan"),
        (lambda: Box([0, [1]], 1), "its rows must have one length"),
        (lambda: Box("a", 1), "low is 'a'; it must be a number"),
        (lambda: Box(None, None), "low is None; it must be a number"),
        (lambda: Box(-1, 255, (2,), jnp.uint8), "low is -1 and high 255; uint8 is from 0 to 255"),
        (lambda: Box(0, 1, (4, 3), stack=2), r"stack 2 does not divide the last size of shape \(4, 3\)"),
        (lambda: Box(0, 1, 3), r"shape is 3; it must be a tuple of sizes, such as \(3,\)"),
        (lambda: Box(0, 1, (2.5,)), "shape is"),
        (lambda: Box(0, 1, dtype=np.float64), "dtype is float64; it must be one of numbers of at most 32 bits"),
        (lambda: Box(0, 1, dtype="flaot32"), "dtype is 'flaot32'"),
    ],
)
def test_nonsense_is_refused(make, message):
    refused(make, message)


def test_a_huge_space_is_described_without_an_array_of_its_size():
    """A file may name such sizes: they are held to the memory where arrays are made."""
    tracemalloc.start()
    space = Box(0.0, 1.0, (10**6, 10**3))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10**6 and space.struct.size == 10**9
    refused(lambda: Box(np.array([0.0, 2.0]), 1.0, (3, 2)), r"low is 2.0 and high is 1.0 at \[1\]")
