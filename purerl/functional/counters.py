"""Counters that do not wrap around."""

import jax.numpy as jnp
import numpy as np

from purerl.types import Array

MOST = np.iinfo(np.int32).max


def increment(counter: Array) -> Array:
    """Return counter + 1, i32[]; the largest integer stays as it is."""
    return jnp.where(counter < MOST, counter + 1, MOST)
