"""A branch that stays a branch when runs are vmapped, where JAX would compute both sides and choose."""

import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from purerl.types import Array


@custom_vmap
def any_lane(condition: Array) -> Array:
    """Return bool[]: whether any element is true, here or in any lane of the `vmap`s around.

    A branch on it stays a branch when runs are vmapped, where one on `jnp.any` would compute both sides.
    """
    return jnp.any(condition)


@any_lane.def_vmap
def _any_lane(axis_size: int, batched: list[bool], condition: Array) -> tuple[Array, bool]:
    return any_lane(condition), False
