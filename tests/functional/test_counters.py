"""Counters at the limit of their range."""

import jax.numpy as jnp
import pytest

from purerl.functional.counters import MOST, increment


@pytest.mark.long
def test_the_largest_integer_stays():
    assert [int(increment(jnp.int32(n))) for n in (0, 41, MOST - 1, MOST)] == [1, 42, MOST, MOST]
    assert increment(jnp.int32(0)).dtype == jnp.int32
