"""The space of arrays between two bounds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from purerl.errors import InputError
from purerl.fields import number, pytree, static
from purerl.spaces.space import Space, as_array, check_key, count, fits, set_field


def _all_finite(*bounds: jax.Array | np.ndarray) -> bool:
    """Return whether bounds are finite and concrete, that is, NumPy arrays."""
    return all(isinstance(bound, np.ndarray) and bool(np.all(np.isfinite(bound))) for bound in bounds)


@pytree
class Box(Space):
    """Arrays of one shape and dtype between two bounds, which may be infinite and may be traced.

    Bounds are scalars or arrays that broadcast to `shape`; its default is the shape of the bounds. With `stack` k, an
    observation holds the last k frames along the last axis, the newest last. Each step adds one frame, so a replay can
    store each frame once.

    Example:
      >>> import purerl
      >>> purerl.Box(low=-1.0, high=1.0, shape=(3,)).shape
      (3,)
    """

    low: Any = number(kw_only=False)
    high: Any = number(kw_only=False)
    shape: tuple[int, ...] = static(default=None, kw_only=False)
    dtype: Any = static(default=jnp.float32, kw_only=False)
    stack: int = static(default=1)

    def __post_init__(self) -> None:
        """Infer the shape; check the shape, the dtype and concrete bounds against one another."""
        for side in ("low", "high"):
            if isinstance(bound := getattr(self, side), list | tuple | str | bytes | None):
                set_field(self, side, as_array(bound, f"Box: {side}"))
        try:
            dtype = jnp.dtype(self.dtype)
        except TypeError:
            raise InputError(f"Box: dtype is {self.dtype!r}; it must be one such as jnp.float32") from None
        if dtype.itemsize > 4 or dtype.kind not in "biuf" + "V":  # V: bfloat16 and its kin
            raise InputError(f"Box: dtype is {dtype}; it must be one of numbers of at most 32 bits, such as float32")
        set_field(self, "shape", _box_shape(self.shape, self.low, self.high))
        if count(self.stack, "Box: stack") > 1 and (not self.shape or self.shape[-1] % self.stack):
            raise InputError(f"Box: stack {self.stack} does not divide the last size of shape {self.shape}")
        if dtype.kind != "b":
            _check_bounds(self)

    def sample(self, key: jax.Array) -> jax.Array:
        """Sample an array of `shape`: uniform if both bounds are finite, otherwise standard normal, clipped."""
        check_key(key)
        dtype = jnp.dtype(self.dtype)
        if dtype == jnp.bool_:
            return jax.random.bernoulli(key, 0.5, self.shape)
        if jnp.issubdtype(dtype, jnp.integer):
            if isinstance(self.high, np.ndarray | int) and np.max(self.high) >= np.iinfo(np.int32).max:
                return self._of_words(key).astype(dtype)
            low = jnp.broadcast_to(jnp.asarray(self.low, jnp.int32), self.shape)
            return jax.random.randint(key, self.shape, low, jnp.asarray(self.high, jnp.int32) + 1, jnp.int32).astype(
                dtype
            )
        low, high = self._bounds()
        if _all_finite(low, high):
            return jax.random.uniform(key, self.shape, dtype) * (high - low) + low
        bounded = jnp.isfinite(low) & jnp.isfinite(high)
        key_uniform, key_normal = jax.random.split(key)
        uniform = jax.random.uniform(key_uniform, self.shape, dtype)
        uniform = jnp.where(bounded, low, 0) + uniform * jnp.where(bounded, high - low, 1)
        normal = jnp.clip(jax.random.normal(key_normal, self.shape, dtype), low, high)
        return jnp.where(bounded, uniform, normal)

    @property
    def is_unbounded(self) -> bool:
        """Whether a bound is infinite; unknown for a traced bound."""
        known = (bound for bound in (self.low, self.high) if not isinstance(bound, Tracer))
        return not all(np.isfinite(np.asarray(bound)).all() for bound in known)

    def _of_words(self, key: jax.Array) -> jax.Array:
        """Sample integers from u32 words, between bounds that are up to 2^32 - 1 apart."""
        low, high = (
            np.broadcast_to(np.asarray(x, np.int64), self.shape).astype(np.uint32) for x in (self.low, self.high)
        )
        span, words = high - low + np.uint32(1), jax.random.bits(key, self.shape, jnp.uint32)  # span 0: all words
        return jnp.asarray(low) + jnp.where(span == 0, words, words % np.maximum(span, 1))

    def contains(self, value: Any) -> jax.Array:
        """Return bool[]; a NaN is never inside."""
        if not fits(value, self.struct):
            return jnp.array(False)
        if jnp.dtype(self.dtype) == jnp.bool_:
            return jnp.array(True)
        low, high = self._bounds()
        return jnp.all((value >= low) & (value <= high))

    def clip(self, value: jax.Array) -> jax.Array:
        """Return `value` (any leading axes) moved to the nearest point inside the bounds."""
        low, high = self._bounds()
        return jnp.clip(value, low, high)

    def _bounds(self) -> tuple[jax.Array | np.ndarray, jax.Array | np.ndarray]:
        """Return (low, high), as NumPy arrays if they are concrete, so that a trace can read them."""
        dtype = jnp.dtype(self.dtype)
        cast = lambda bound: jnp.asarray(bound, dtype) if isinstance(bound, jax.Array) else np.asarray(bound, dtype)
        return cast(self.low), cast(self.high)

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """`dtype[shape]`."""
        return jax.ShapeDtypeStruct(self.shape, jnp.dtype(self.dtype))


def _box_shape(shape: object, *bounds: object) -> tuple[int, ...]:
    """Return the shape of a box: the one that is given, or that of its bounds."""
    if shape is None:
        shapes = [getattr(bound, "shape", ()) for bound in bounds]
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            raise InputError(f"Box: low and high have the shapes {shapes[0]} and {shapes[1]}; give one shape") from None
    is_size = lambda size: isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0
    if not isinstance(shape, tuple | list) or not all(map(is_size, shape)):
        raise InputError(f"Box: shape is {shape!r}; it must be a tuple of sizes, such as (3,), or () for one number")
    return tuple(map(int, shape))


def _check_bounds(box: Box) -> None:
    """Check concrete bounds, numbers or NumPy arrays, against the shape and against each other.

    Those in JAX may be traced, or batched by a vmap over spaces.
    """
    known = (int, float, np.ndarray, np.generic)
    if not isinstance(box.low, known) or not isinstance(box.high, known):
        return
    for side, bound in (("low", box.low), ("high", box.high)):
        if np.ndim(bound) > len(box.shape):
            return  # batched
        try:
            broadcasts = np.broadcast_shapes(np.shape(bound), box.shape) == box.shape
        except ValueError:
            broadcasts = False
        if not broadcasts:
            raise InputError(f"Box: {side} has the shape {np.shape(bound)}, which does not broadcast to {box.shape}")
        if np.isnan(bound).any():
            raise InputError(f"Box: {side} is nan; bounds are numbers, -inf or inf where there are none")
    low, high = np.broadcast_arrays(box.low, box.high)  # not to the shape, which a file may name as large as it likes
    if (low > high).any():
        at = tuple(int(i) for i in np.argwhere(low > high)[0])
        where = f" at {list(at)}" if at else ""
        raise InputError(f"Box: low is {low[at]} and high is {high[at]}{where}; low must not be larger")
    if jnp.dtype(box.dtype).kind in "iu":
        least, most = (int(end) for end in (jnp.iinfo(box.dtype).min, jnp.iinfo(box.dtype).max))
        if low.min(initial=least) < least or high.max(initial=most) > most:
            kind = jnp.dtype(box.dtype)
            raise InputError(f"Box: low is {low.min()} and high {high.max()}; {kind} is from {least} to {most}")
