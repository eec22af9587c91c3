"""Operations on whole pytrees of arrays."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from purerl.prng import is_key, typed
from purerl.types import Array, PyTree


def where(condition: Array | np.ndarray, on_true: PyTree, on_false: PyTree, axis: int = 0) -> PyTree:
    """Choose between two trees along some axes of their leaves.

    Args:
      condition: bool[n, ...]; its first axis is the leaves' axis `axis`, followed by the next ones.
      on_true, on_false: trees of one structure, whose leaves broadcast against one another.
      axis: the first of the condition's axes.
    """

    def choose(x: Array, y: Array) -> Array:
        shape = (*[1] * axis, *condition.shape, *[1] * (jnp.ndim(y) - axis - condition.ndim))
        return jnp.where(condition.reshape(shape), x, y)

    return jax.tree.map(choose, on_true, on_false)


def zeros(struct: PyTree) -> PyTree:
    """Return NumPy zeros of a leaf's shape and dtype; for typed keys, keys with zero words."""
    if not is_key(struct):
        return np.zeros(struct.shape, struct.dtype)
    words = jax.eval_shape(jax.random.key_data, struct)
    return typed(np.zeros(words.shape, words.dtype), struct)


def strong(tree: PyTree) -> PyTree:
    """Return the tree without weak types, which a loop or a checkpoint would change."""
    return jax.tree.map(lambda x: x if is_key(x) else jax.lax.convert_element_type(x, x.dtype), tree)


def split_floats(tree: PyTree) -> tuple[list[Array], Callable[[list[Array]], PyTree]]:
    """Return (the leaves of a tree that are floats, a function that replaces them)."""
    leaves, structure = jax.tree.flatten(tree)
    floats = {i: leaf for i, leaf in enumerate(leaves) if is_float(leaf)}

    def join(others: list[Array]) -> PyTree:
        changed = dict(zip(floats, others, strict=True))
        return jax.tree.unflatten(structure, [changed.get(i, leaf) for i, leaf in enumerate(leaves)])

    return list(floats.values()), join


def is_float(leaf: object) -> bool:
    """Return whether a leaf is a float or an array of floats."""
    kind = getattr(leaf, "dtype", type(leaf))
    return kind is float or (kind is not type(leaf) and jnp.issubdtype(kind, jnp.floating))
