"""Eight numbers 0 .. 15 in one 32-bit word, and operations on all eight at once.

A set of slots is a word with 1 in the nibble of every member and 0 in the others.
"""

import jax.numpy as jnp
import numpy as np

from purerl.types import Array

ONES = np.uint32(0x11111111)


def is_zero(word: Array) -> Array:
    """Return the set of slots whose number is 0."""
    word = word | word >> jnp.uint32(1)
    return ~(word | word >> jnp.uint32(2)) & ONES


def equal(word: Array, value: Array) -> Array:
    """Return the set of slots whose number is `value`, u32[] below 16."""
    return is_zero(word ^ ONES * value)


def total(members: Array) -> Array:
    """Return the number of members of a set, u32[]."""
    # The top nibble of the product is the sum of all; a full set's 8 fits.
    return members * ONES >> jnp.uint32(28)


def select(members: Array, rank: Array) -> Array:
    """Return the set of only the member with `rank` others below it, or the empty set if there is none."""
    return members & equal(members * ONES, rank + jnp.uint32(1))


def pack(values: Array) -> Array:
    """Return u32[] from u32[8], each below 16."""
    word = values[0]
    for slot in range(1, 8):
        word = word | values[slot] << jnp.uint32(4 * slot)
    return word


def unpack(word: Array) -> list[Array]:
    """Return the eight numbers, i32[] each."""
    return [(word >> jnp.uint32(4 * slot) & jnp.uint32(15)).astype(jnp.int32) for slot in range(8)]
