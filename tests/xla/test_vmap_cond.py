"""A branch on whether any member of a vmap needs it."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.xla.vmap_cond import any_lane


def test_any_lane_sees_every_lane():
    condition = jnp.array([[False, False], [False, True]])
    np.testing.assert_array_equal(jax.vmap(any_lane)(condition), [True, True])
    np.testing.assert_array_equal(jax.vmap(any_lane)(jnp.zeros((2, 2), jnp.bool_)), [False, False])
