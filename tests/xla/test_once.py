"""A value that is computed once: the same bits, and one copy of its computation in the compiled program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.prng import fast
from purerl.xla import once, switches


def values(key):
    return jnp.sin(jax.random.uniform(key, (64, 32))), jax.random.randint(key, (3,), 0, 9, jnp.int32)


@pytest.mark.parametrize("seed", [0, int(once.RARE)])
def test_it_is_the_same_value(seed):
    keys = jax.random.wrap_key_data(jnp.array([[seed, 7], [1, 2]], jnp.uint32))
    for key, expected in ((keys[0], values(keys[0])), (fast(keys[1]), values(fast(keys[1])))):
        jax.tree.map(np.testing.assert_array_equal, jax.jit(lambda key: once.once(values, key))(key), expected)
    many = jax.jit(jax.vmap(lambda key: once.once(values, key)))(keys)
    jax.tree.map(np.testing.assert_array_equal, many, jax.vmap(values)(keys))


@pytest.mark.optimized
def test_it_is_computed_once():
    def program(key):
        x = once.once(lambda key: values(key)[0], key)
        return x + 1.0, jnp.cumsum(x, axis=0), jnp.sort(x, axis=1)

    def sines():
        # A new function each time: JAX remembers what it traced.
        text = jax.jit(lambda key: program(key)).lower(jax.random.key(0)).compile().as_text()
        return text.count(" sine(") + text.count(" cosine(")

    assert sines() == 1
    with switches.off("once"):
        assert sines() > 1
