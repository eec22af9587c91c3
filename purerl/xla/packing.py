"""What a loop stacks at every step, as few arrays where that is faster."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from purerl.types import Array, PyTree
from purerl.xla import backend

WORD = 32  # bits; one number per environment takes a word, whatever its type


def pack(tree: PyTree) -> tuple[PyTree, Callable[[PyTree], PyTree]]:
    """Return (the arrays [B, ...] side by side as raw words, the way back from such records [T, B, ...]).

    On a GPU each array that a loop stacks is a kernel of its own; this makes it one for all of a width. On a CPU, where
    kernels cost nothing and copies do, the tree stays as it is.
    """
    if backend.name() == "cpu":
        return tree, lambda stacked: stacked
    leaves, structure = jax.tree.flatten(tree)
    widths = [_width(x) for x in leaves]
    groups = sorted(set(widths))

    def record(width: int) -> Array:
        mine = (_bits(x, width) for x, w in zip(leaves, widths, strict=True) if w == width)
        return jnp.concatenate([x.reshape(x.shape[0], math.prod(x.shape[1:])) for x in mine], axis=-1)

    def unpack(stacked: list[Array]) -> PyTree:
        of_width, begin, parts = dict(zip(groups, stacked, strict=True)), dict.fromkeys(groups, 0), []
        for x, width in zip(leaves, widths, strict=True):
            records, end = of_width[width], begin[width] + math.prod(x.shape[1:])
            part = records[..., begin[width] : end].reshape(*records.shape[:-1], *x.shape[1:])
            parts.append(_from_bits(part, x.dtype))
            begin[width] = end
        return jax.tree.unflatten(structure, parts)

    return [record(width) for width in groups], unpack


def _width(x: Array) -> int:
    bits = 8 * x.dtype.itemsize
    return WORD if x.ndim == 1 and bits < WORD else bits


def _unsigned(bits: int) -> jnp.dtype:
    return jnp.dtype(f"uint{bits}")


def _bits(x: Array, width: int) -> Array:
    """Return the bits of each number as an unsigned integer of `width` bits."""
    own = x.astype(jnp.uint8) if x.dtype == jnp.bool_ else x
    return jax.lax.bitcast_convert_type(own, _unsigned(8 * x.dtype.itemsize)).astype(_unsigned(width))


def _from_bits(bits: Array, dtype: jnp.dtype) -> Array:
    if dtype == jnp.bool_:
        return bits != 0
    return jax.lax.bitcast_convert_type(bits.astype(_unsigned(8 * dtype.itemsize)), dtype)
