"""The base class of spaces: a structure, sampling, and a test of membership."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError
from purerl.fields import PyTree


class Space:
    """A set of values with a fixed structure, shape and dtype."""

    def sample(self, key: jax.Array) -> PyTree:
        """Sample an element: uniformly within its bounds, or from a standard normal without bounds."""
        raise NotImplementedError

    def contains(self, value: object) -> jax.Array:
        """Return bool[]: whether `value` has this space's shape and dtype and lies within its bounds."""
        raise NotImplementedError

    @property
    def struct(self) -> PyTree:
        """The shapes and dtypes of an element: a pytree of `jax.ShapeDtypeStruct`."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """The size of a flattened element; 1 for a `Discrete`."""
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(self.struct))

    def zeros(self) -> PyTree:
        """Return an element-shaped tree of zeros."""
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), self.struct)

    def __str__(self) -> str:
        """Return the kind and the shapes, such as Box float32[3], in one line."""
        leaf = lambda x: f"{x.dtype}[{','.join(map(str, x.shape))}]"
        shown = leaf(self.struct) if isinstance(self.struct, jax.ShapeDtypeStruct) else jax.tree.map(leaf, self.struct)
        return f"{type(self).__name__} {shown}"


def fits(value: Any, struct: jax.ShapeDtypeStruct) -> bool:
    """Return whether a value is an array of this shape and dtype."""
    return hasattr(value, "dtype") and value.shape == struct.shape and value.dtype == struct.dtype


def check_key(key: object) -> None:
    """Raise an `InputError` unless an object can be a JAX key."""
    if not hasattr(key, "dtype"):
        raise InputError(f"key is {key!r}; it must be a key of JAX, such as jax.random.key(0)")


def as_array(value: object, what: str) -> np.ndarray:
    """Return a list as an array of numbers.

    Raises:
      InputError: if its rows differ in length, or it holds anything except numbers.
    """
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"{what} is {value!r}; its rows must have one length") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} is {value!r}; it must be a number, or an array of numbers")
    return array


def set_field(space: Space, name: str, value: object) -> None:
    """Set a field of a space under construction, which is frozen."""
    object.__setattr__(space, name, value)


def count(n: object, what: str) -> int:
    """Return a number as an integer, after checking that it is at least 1.

    Raises:
      InputError: if it is none, naming it.
    """
    if isinstance(n, bool | np.bool_) or not isinstance(n, int | np.integer) or not 1 <= n < 2**31:
        raise InputError(f"{what} is {n!r}; it must be a whole number, at least 1 and below 2^31")
    return int(n)
