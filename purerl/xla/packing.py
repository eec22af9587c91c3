"""Packs many arrays into few for a loop to carry or to stack, where that is faster.

On a GPU each array that a loop carries or stacks is a kernel of its own; packing makes it one for all numbers of a
width. For the parameters of many members, the copies cost more than the kernels. On a CPU, where kernels cost nothing
and copies do, trees are not packed: there the copy of what a loop carries costs a tenth of PPO's gradient step.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from purerl.types import Array, PyTree
from purerl.xla import backend, switches

WORD = 32  # bits; a single number takes a word, whatever its type


def pack(tree: PyTree, leading: int) -> tuple[PyTree, Callable[[PyTree], PyTree]]:
    """Return (the arrays of a tree concatenated as raw words, the inverse function).

    Args:
      tree: arrays with `leading` axes in common: 1 for numbers of B environments, 0 for parameters.
      leading: number of leading axes that stay; the remaining axes become one.

    Returns:
      (packed, unpack): `unpack` also reads packed arrays that a loop has stacked, [T, ...]. Random keys stay apart.
    """
    if backend.name() == "cpu" or not switches.is_on("packing") or (leading == 0 and backend.copies_cost_more(tree)):
        return tree, lambda packed: packed
    leaves, structure = jax.tree.flatten(tree)
    widths = [_width(x, leading) for x in leaves]
    groups = sorted({width for width in widths if width})

    def record(width: int) -> Array:
        arrays = (_bits(x, width) for x, w in zip(leaves, widths, strict=True) if w == width)
        return jnp.concatenate([x.reshape(*x.shape[:leading], _size(x, leading)) for x in arrays], axis=-1)

    def unpack(packed: list[Array]) -> PyTree:
        of_width, apart = dict(zip(groups, packed, strict=False)), iter(packed[len(groups) :])
        begin, parts = dict.fromkeys(groups, 0), []
        for x, width in zip(leaves, widths, strict=True):
            if not width:
                parts.append(next(apart))
                continue
            records, end = of_width[width], begin[width] + _size(x, leading)
            part = records[..., begin[width] : end].reshape(*records.shape[:-1], *x.shape[leading:])
            parts.append(_from_bits(part, x.dtype))
            begin[width] = end
        return jax.tree.unflatten(structure, parts)

    keys = [x for x, width in zip(leaves, widths, strict=True) if not width]
    return [*(record(width) for width in groups), *keys], unpack


def _size(x: Array, leading: int) -> int:
    return math.prod(x.shape[leading:])


def _width(x: Array, leading: int) -> int:
    """Return the number of bits of an array's elements; 0 for random keys."""
    if jnp.issubdtype(x.dtype, jax.dtypes.extended):
        return 0
    bits = 8 * x.dtype.itemsize
    return WORD if x.ndim == leading and bits < WORD else bits


def _unsigned(bits: int) -> jnp.dtype:
    return jnp.dtype(f"uint{bits}")


def _bits(x: Array, width: int) -> Array:
    """Return the bits of each number as an unsigned integer of `width` bits."""
    number = x.astype(jnp.uint8) if x.dtype == jnp.bool_ else x
    return jax.lax.bitcast_convert_type(number, _unsigned(8 * x.dtype.itemsize)).astype(_unsigned(width))


def _from_bits(bits: Array, dtype: jnp.dtype) -> Array:
    if dtype == jnp.bool_:
        return bits != 0
    return jax.lax.bitcast_convert_type(bits.astype(_unsigned(8 * dtype.itemsize)), dtype)
