"""A branch that stays a branch when runs are vmapped; JAX would compute both sides and select."""

import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from purerl.types import Array
from purerl.xla import switches


def any_member(condition: Array) -> Array:
    """Return whether any element is true, here or in any member of enclosing `vmap`s, bool[].

    A `lax.cond` on it stays a branch when runs are vmapped; on `jnp.any` it would compute both sides.
    """
    return _any_member(condition) if switches.is_on("vmap_cond") else jnp.any(condition)


@custom_vmap
def _any_member(condition: Array) -> Array:
    return jnp.any(condition)


@_any_member.def_vmap
def _any_member_of_all(axis_size: int, batched: list[bool], condition: Array) -> tuple[Array, bool]:
    return _any_member(condition), False
