"""Random permutations by sorting one operand, which is far cheaper than JAX's sort of pairs.

Each word holds random high bits and its index in the low bits.
"""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.types import Array, Key
from purerl.xla import switches


def permutation(key: Key, size: int) -> Array:
    """Return a random permutation, i32[size].

    Words with equal random bits stay in order; with b = 32 - ceil(log2 size) random bits that touches a fraction
    size / 2^(b+1) of neighbors.
    """
    if not switches.is_on("permutation"):
        return jax.random.permutation(key, size).astype(jnp.int32)
    index_bits = max(int(size - 1).bit_length(), 1)
    low = np.uint32((1 << index_bits) - 1)
    words = (jax.random.bits(key, (size,), jnp.uint32) & ~low) | jnp.arange(size, dtype=jnp.uint32)
    return (jnp.sort(words) & low).astype(jnp.int32)
