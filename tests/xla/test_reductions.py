"""Means of several columns, one by one or in one reduction."""

import jax
import numpy as np
import pytest

from purerl.functional import masked
from purerl.xla import backend, switches


@pytest.mark.long
def test_columns_together_as_one_by_one(key):
    columns = {"a": jax.random.normal(key, (6,)), "b": jax.random.uniform(key, (6,))}
    mask = jax.random.bernoulli(key, 0.5, (6,))
    alone = masked.means(columns, mask)
    with backend.traced_for("gpu"):
        together = jax.make_jaxpr(lambda columns: masked.means(columns, mask))(columns)
        np.testing.assert_allclose(list(masked.means(columns, mask).values()), list(alone.values()), rtol=1e-6)
        with switches.off("columns"):
            apart = jax.make_jaxpr(lambda columns: masked.means(columns, mask))(columns)
    assert str(together).count("reduce_sum") < str(apart).count("reduce_sum")
