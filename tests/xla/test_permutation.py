"""Random permutations: every order is equally frequent."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.xla import switches
from purerl.xla.permutation import permutation


@pytest.mark.parametrize("size", [1, 2, 3, 64, 100, 4096])
def test_is_a_permutation(key, size):
    order = permutation(key, size)
    assert order.dtype == jnp.int32
    np.testing.assert_array_equal(np.sort(order), np.arange(size))


def test_all_orders_of_four_are_equally_frequent(key):
    """Chi-square over 23 degrees of freedom; 49.7 is exceeded once in a thousand."""
    orders = np.asarray(jax.vmap(lambda k: permutation(k, 4))(jax.random.split(key, 24_000)))
    counts = [(orders == order).all(1).sum() for order in itertools.permutations(range(4))]
    assert ((np.array(counts) - 1000) ** 2 / 1000).sum() < 49.7


@pytest.mark.long
def test_each_place_is_uniform(key):
    """Where item 0 and item 99 of 100 go: chi-square over 99 degrees of freedom, 149 at one in a thousand."""
    orders = np.asarray(jax.vmap(lambda k: permutation(k, 100))(jax.random.split(key, 10_000)))
    for item in (0, 99):
        counts = np.bincount(np.argmax(orders == item, axis=1), minlength=100)
        assert ((counts - 100) ** 2 / 100).sum() < 149


@pytest.mark.long
def test_switched_off_it_is_jaxs(key):
    with switches.off("permutation"):
        np.testing.assert_array_equal(permutation(key, 10), jax.random.permutation(key, 10))
