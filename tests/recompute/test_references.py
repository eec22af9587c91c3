"""References to observations, looked up in parts."""

import jax.numpy as jnp
import numpy as np

from purerl.recompute import references


def test_rows_are_cut_and_joined_again(monkeypatch):
    monkeypatch.setattr(references, "PART_BYTES", 12)
    x = jnp.arange(14.0).reshape(7, 2)
    found = references.in_parts(lambda rows: {"twice": 2 * rows, "rows": jnp.full(rows.shape[0], rows.shape[0])}, x, 4)
    np.testing.assert_array_equal(found["twice"], 2 * x)
    np.testing.assert_array_equal(found["rows"], [3] * 7)
