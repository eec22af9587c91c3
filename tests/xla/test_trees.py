"""Operations on complete trees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.prng import GENERATORS, is_key
from purerl.xla.trees import split_floats, strong, where, zeros


def test_where_chooses_along_leading_axes():
    condition = jnp.array([True, False, True])
    x, y = {"a": jnp.ones((3, 2)), "b": jnp.arange(3)}, {"a": jnp.zeros((3, 2)), "b": -jnp.arange(3)}
    found = where(condition, x, y)
    np.testing.assert_array_equal(found["a"], [[1, 1], [0, 0], [1, 1]])
    np.testing.assert_array_equal(found["b"], [0, -1, 2])
    np.testing.assert_array_equal(where(condition[None], x["a"].T, y["a"].T), found["a"].T)
    np.testing.assert_array_equal(where(np.array(True), 1, 2), 1)


def test_where_chooses_along_another_axis():
    condition = np.array([True, False])
    found = where(condition, jnp.ones((3, 2, 4)), jnp.zeros((3, 2, 4)), axis=1)
    np.testing.assert_array_equal(found, np.broadcast_to(condition[None, :, None], (3, 2, 4)))
    np.testing.assert_array_equal(where(condition, jnp.ones((1, 3)), jnp.zeros((2, 3))), [[1] * 3, [0] * 3])


@pytest.mark.long
def test_zeros_keep_kinds_of_keys():
    assert zeros(jax.ShapeDtypeStruct((2, 3), jnp.int32)).tolist() == [[0] * 3] * 2
    for kind in GENERATORS.values():
        key = jax.eval_shape(lambda kind=kind: jax.random.split(jax.random.key(0, impl=kind), 4))
        blank = zeros(key)
        assert is_key(blank) and (blank.shape, blank.dtype) == (key.shape, key.dtype)
        assert not np.any(jax.random.key_data(blank))


@pytest.mark.long
def test_strong_types():
    tree = {"weak": jnp.asarray(1.0), "key": jax.random.key(0), "sum": 1 + jnp.asarray(2)}
    assert any(x.weak_type for x in jax.tree.leaves(tree) if not is_key(x))
    after = strong(tree)
    assert not any(x.weak_type for x in jax.tree.leaves(after) if not is_key(x)) and is_key(after["key"])


def test_floats_are_taken_out_and_put_back():
    tree = {"a": 1.5, "b": jnp.arange(2), "c": [jnp.ones(3), "text"], "key": jax.random.key(0)}
    floats, join = split_floats(tree)
    assert [np.shape(leaf) for leaf in floats] == [(), (3,)]
    again = join([2.5, jnp.zeros(3)])
    assert (again["a"], again["c"][1], again["key"]) == (2.5, "text", tree["key"])
    np.testing.assert_array_equal(again["b"], tree["b"])
    np.testing.assert_array_equal(again["c"][0], np.zeros(3))
