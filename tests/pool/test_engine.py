"""The pool's engine: packing of results."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.pool import engine


@pytest.mark.long
def test_numbers_of_any_dtype_come_back_from_packing():
    values = {
        "bool": np.array([True, False, True]),
        "int8": np.array([-128, 0, 127], np.int8),
        "uint16": np.array([0, 1, 2**16 - 1], np.uint16),
        "int32": np.array([-(2**31), -1, 2**31 - 1], np.int32),
        "uint32": np.array([0, 7, 2**32 - 1], np.uint32),
        "float16": np.array([-6e-8, np.inf, 65504], np.float16),
        "float32": np.array([np.nan, -0.0, 1e-40], np.float32),
        "bfloat16": np.asarray(jnp.array([1.5, -2.0, 3e38], jnp.bfloat16)),  # is left as it is
        "vectors": np.arange(6, dtype=np.int8).reshape(3, 2),  # also left as it is
    }
    packed = engine.pack(jax.tree.map(jnp.asarray, values))
    assert len(packed.apart) == 2
    found = engine.unpack(packed, values)
    for name, value in values.items():
        assert found[name].dtype == value.dtype and found[name].flags.writeable
        np.testing.assert_array_equal(found[name].view(np.uint8), value.view(np.uint8), err_msg=name)
