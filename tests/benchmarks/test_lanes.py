"""Functions of one environment over lanes against `jax.vmap`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import lanes
from purerl.prng import fast

pytestmark = pytest.mark.publish
SIZE = 5


def moves(x, key):
    """What moves numbers."""
    table = jnp.concatenate([x, 2 * x[::-1]]).reshape(2, 3).T
    return jnp.stack([table[:, 0], table[::-1, 1]]), table[None, 1:], jnp.where(table > 1, jnp.arange(2.0), table)


def computes(x, key):
    """What computes, reductions included."""
    outer = x[:, None] * jnp.tanh(x)
    return outer.sum(0), outer.max(), jnp.round(3 * x), jax.nn.log_softmax(x), (x > 0).any()


def draws(x, key):
    """What needs random keys."""
    first, second = jax.random.split(key)
    more = jax.random.split(jax.random.fold_in(second, 3), 9)
    return first, more[4], jax.random.uniform(first, (2, 2)), jax.vmap(lambda key: jax.random.bits(key))(more[:3])


@pytest.mark.parametrize("function", [moves, computes, draws])
def test_lanes_compute_what_vmap_does(function):
    x = jax.random.normal(jax.random.key(0), (SIZE, 3))
    keys = jax.random.split(fast(jax.random.key(1)), SIZE)
    traced = lanes.Function(function, x[0], keys[0])
    columns = [*x.T, *jax.random.key_data(keys).T]
    given = iter(columns)
    found = traced(lanes.from_vectors(given, (3,), False), lanes.from_vectors(given, (), True))
    for expected, value in zip(jax.vmap(function)(x, keys), found, strict=True):
        vectors = lanes.to_vectors(value, expected.dtype, SIZE)
        words = jax.random.key_data(expected) if jnp.issubdtype(expected.dtype, jax.dtypes.prng_key) else expected
        assert len(vectors) == words[0].size
        if vectors:
            np.testing.assert_allclose(np.stack(vectors, 1).reshape(words.shape), words, rtol=1e-6)


def test_what_is_not_used_is_known():
    traced = lanes.Function(lambda x, key: x + 1, jnp.zeros(2), fast(jax.random.key(0)))
    assert traced.used == [True, False]
    (result,) = traced(lanes.from_vectors(iter([jnp.zeros(SIZE)] * 2), (2,), False), None).reshape(1, 2)
    assert all(float(x.sum()) == SIZE for x in result)


def test_an_operation_over_several_numbers_is_refused():
    """Computed for each number alone, a sort would sort the environments."""
    traced = lanes.Function(jnp.sort, jnp.zeros(2))
    with pytest.raises(NotImplementedError, match="sort"):
        traced(lanes.from_vectors(iter([jnp.zeros(SIZE)] * 2), (2,), False))
