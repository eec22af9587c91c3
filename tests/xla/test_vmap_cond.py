"""A branch on whether any member of a vmap needs it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.xla.vmap_cond import any_member


@pytest.mark.long
def test_any_member_sees_every_member():
    condition = jnp.array([[False, False], [False, True]])
    np.testing.assert_array_equal(jax.vmap(any_member)(condition), [True, True])
    np.testing.assert_array_equal(jax.vmap(any_member)(jnp.zeros((2, 2), jnp.bool_)), [False, False])
