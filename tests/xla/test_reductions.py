"""Means of several columns, one by one or in one reduction."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.functional import masked
from purerl.xla import backend, switches
from purerl.xla.reductions import LONG, over_columns


@pytest.mark.long
def test_columns_together_as_one_by_one(key):
    columns = {"a": jax.random.normal(key, (LONG,)), "b": jax.random.uniform(key, (LONG,))}
    mask = jax.random.bernoulli(key, 0.5, (LONG,))
    alone = masked.means(columns, mask)
    with backend.traced_for("gpu"):
        together = jax.make_jaxpr(lambda columns: masked.means(columns, mask))(columns)
        np.testing.assert_allclose(list(masked.means(columns, mask).values()), list(alone.values()), rtol=1e-6)
        with switches.off("columns"):
            apart = jax.make_jaxpr(lambda columns: masked.means(columns, mask))(columns)
    assert str(together).count("reduce_sum") < str(apart).count("reduce_sum")


def test_short_columns_stay_apart(key):
    """One reduction of them is more kernels and more bytes, and jaxlib 0.10.2 fails to compile some for a GPU."""
    columns = {"a": jax.random.normal(key, (128,)), "b": jax.random.uniform(key, (128,))}
    with backend.traced_for("gpu"):
        assert str(jax.make_jaxpr(masked.means)(columns)).count("reduce_sum") == len(columns)


def test_columns_together_keep_their_names():
    with backend.traced_for("gpu"):
        assert over_columns(jnp.mean, {"b": jnp.ones(LONG), "a": jnp.zeros(LONG)}) == {"b": 1.0, "a": 0.0}
