"""The memory that a compiled program needs."""

import jax
import numpy as np

from purerl.devices import memory
from purerl.sweeps import chunks


def test_memory_of_a_program():
    """A product of two matrices needs at least these and its result; a chunk on a CPU is not larger than it serves."""
    shape = jax.ShapeDtypeStruct((256, 256), np.float32)
    compiled = jax.jit(lambda x, y: x @ y).lower(shape, shape).compile()
    assert 3 * 256 * 256 * 4 <= memory.needed(compiled) < 10 * 256 * 256 * 4
    assert 2**20 < memory.free() < 2**45
    assert chunks.MEMBERS >= 8
