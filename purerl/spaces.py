"""Spaces: what an observation or an action looks like, and how to draw one."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from purerl.errors import InputError, told
from purerl.fields import number, pytree, static


class Space:
    """A set of values with a fixed structure, shape and dtype."""

    def sample(self, key: jax.Array) -> Any:
        """Draw an element uniformly (from a standard normal where there are no bounds)."""
        raise NotImplementedError

    def contains(self, value: Any) -> jax.Array:
        """Return bool[]: whether `value` has this space's shape and dtype and lies within its bounds."""
        raise NotImplementedError

    @property
    def struct(self) -> Any:
        """The shapes and dtypes of an element: a pytree of `jax.ShapeDtypeStruct`."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """How many numbers an element has when it is flattened (one for a `Discrete`)."""
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(self.struct))

    def zeros(self) -> Any:
        """Return an element-shaped tree of zeros."""
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), self.struct)

    def __str__(self) -> str:
        """Return the kind and the shapes, such as Box float32[3], in one line."""
        leaf = lambda x: f"{x.dtype}[{','.join(map(str, x.shape))}]"
        shown = leaf(self.struct) if isinstance(self.struct, jax.ShapeDtypeStruct) else jax.tree.map(leaf, self.struct)
        return f"{type(self).__name__} {shown}"


def _fits(value: Any, struct: jax.ShapeDtypeStruct) -> bool:
    return hasattr(value, "dtype") and value.shape == struct.shape and value.dtype == struct.dtype


@pytree
class Discrete(Space):
    """The integers 0 .. n-1, int32[]."""

    n: int = static(at_least=1, kw_only=False)

    def __post_init__(self) -> None:
        """Hold n to a whole number from 1 on."""
        _set(self, "n", _count(self.n, "Discrete: n"))

    def __str__(self) -> str:
        """Return Discrete(n)."""
        return f"Discrete({self.n})"

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw int32[] uniformly from 0 .. n-1."""
        return _below(key, np.int32(self.n))

    def contains(self, value: Any) -> jax.Array:
        """Return bool[]."""
        return jnp.all((value >= 0) & (value < self.n)) if _fits(value, self.struct) else jnp.array(False)

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """int32[]."""
        return jax.ShapeDtypeStruct((), jnp.int32)


@pytree
class MultiDiscrete(Space):
    """Several integers at once, int32[len(nvec)]: the i-th is one of 0 .. nvec[i]-1."""

    nvec: tuple[int, ...] = static(at_least=1, kw_only=False)

    def __post_init__(self) -> None:
        """Hold each number of choices to a whole number from 1 on."""
        if np.ndim(self.nvec) != 1:
            raise InputError(f"MultiDiscrete: nvec is {self.nvec!r}; it must be a list of numbers of choices")
        _set(self, "nvec", tuple(_count(n, f"MultiDiscrete: nvec[{i}]") for i, n in enumerate(self.nvec)))

    def __str__(self) -> str:
        """Return MultiDiscrete(n, m, ...)."""
        return f"MultiDiscrete({', '.join(map(str, self.nvec))})"

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw int32[len(nvec)] uniformly."""
        return _below(key, np.asarray(self.nvec, np.int32))

    def contains(self, value: Any) -> jax.Array:
        """Return bool[]."""
        if not _fits(value, self.struct):
            return jnp.array(False)
        return jnp.all((value >= 0) & (value < np.asarray(self.nvec, np.int32)))

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """int32[len(nvec)]."""
        return jax.ShapeDtypeStruct((len(self.nvec),), jnp.int32)


def _below(key: jax.Array, n: np.ndarray | np.int32) -> jax.Array:
    """Draw int32 of the shape of `n`, each uniformly from 0 .. n-1.

    One word times n, of which the high word counts, in two halves of 16 bits: every value has its share within 2^-32.
    `randint`, which larger n want, draws twice and divides, which no vector unit does.
    """
    if np.max(n) > 1 << 16:
        return jax.random.randint(key, np.shape(n), 0, n, jnp.int32)
    word, count = jax.random.bits(key, np.shape(n), jnp.uint32), n.astype(np.uint32)
    low = ((word & jnp.uint32(0xFFFF)) * count) >> jnp.uint32(16)
    return (((word >> jnp.uint32(16)) * count + low) >> jnp.uint32(16)).astype(jnp.int32)


def _all_finite(*bounds: jax.Array | np.ndarray) -> bool:
    """Return whether bounds are known, that is NumPy arrays, and finite."""
    return all(isinstance(bound, np.ndarray) and bool(np.all(np.isfinite(bound))) for bound in bounds)


@pytree
class Box(Space):
    """Arrays of one shape and dtype between two bounds, which may be infinite and may be traced.

    Bounds are scalars or arrays that broadcast to `shape`, which is theirs if none is given. With `stack` k an
    observation shows the last k frames side by side along the last axis, the newest last, and each step brings one new
    frame: a replay may keep each frame once.
    """

    low: Any = number(kw_only=False)
    high: Any = number(kw_only=False)
    shape: tuple[int, ...] = static(default=None, kw_only=False)
    dtype: Any = static(default=jnp.float32, kw_only=False)
    stack: int = static(default=1)

    def __post_init__(self) -> None:
        """Infer the shape; hold it, the dtype and the bounds, where these have values, to one another."""
        for side in ("low", "high"):
            if isinstance(bound := getattr(self, side), list | tuple):
                _set(self, side, np.asarray(bound))
        try:
            dtype = jnp.dtype(self.dtype)
        except TypeError:
            raise InputError(f"Box: dtype is {self.dtype!r}; it must be one such as jnp.float32") from None
        if dtype.itemsize > 4 or dtype.kind not in "biuf" + "V":  # V: bfloat16 and its kin
            raise InputError(f"Box: dtype is {dtype}; it must be one of numbers of at most 32 bits, such as float32")
        _set(self, "shape", _box_shape(self.shape, self.low, self.high))
        if dtype.kind != "b":
            _check_bounds(self)

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw an array of `shape`: uniform where both bounds are finite, else standard normal, clipped."""
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
        """Whether a bound is not finite; of one that is traced that is not known."""
        known = (bound for bound in (self.low, self.high) if not isinstance(bound, Tracer))
        return not all(np.isfinite(np.asarray(bound)).all() for bound in known)

    def _of_words(self, key: jax.Array) -> jax.Array:
        """Draw u32 words that are integers between bounds which lie up to 2^32 - 1 apart."""
        low, high = (
            np.broadcast_to(np.asarray(x, np.int64), self.shape).astype(np.uint32) for x in (self.low, self.high)
        )
        span, words = high - low + np.uint32(1), jax.random.bits(key, self.shape, jnp.uint32)  # of all words: 0
        return jnp.asarray(low) + jnp.where(span == 0, words, words % np.maximum(span, 1))

    def contains(self, value: Any) -> jax.Array:
        """Return bool[]; a NaN is never inside."""
        if not _fits(value, self.struct):
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
        """Return (low, high), as NumPy arrays where they have values, so that these can be looked at in a trace."""
        dtype = jnp.dtype(self.dtype)
        cast = lambda bound: jnp.asarray(bound, dtype) if isinstance(bound, jax.Array) else np.asarray(bound, dtype)
        return cast(self.low), cast(self.high)

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """`dtype[shape]`."""
        return jax.ShapeDtypeStruct(self.shape, jnp.dtype(self.dtype))


def _set(space: Space, name: str, value: Any) -> None:
    object.__setattr__(space, name, value)


def _count(n: Any, what: str) -> int:
    if isinstance(n, bool | np.bool_) or not isinstance(n, int | np.integer) or n < 1:
        raise InputError(f"{what} is {n!r}; it must be a whole number, at least 1")
    return int(n)


def _box_shape(shape: Any, *bounds: Any) -> tuple[int, ...]:
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
    """Hold bounds that have values, as numbers or NumPy arrays, to the shape and to one another.

    Those in JAX may be traced, or batched by a vmap over spaces.
    """
    known = (int, float, np.ndarray, np.generic)
    if not isinstance(box.low, known) or not isinstance(box.high, known):
        return
    for side, bound in (("low", box.low), ("high", box.high)):
        if np.ndim(bound) > len(box.shape):
            return  # batched
        try:
            fits = np.broadcast_shapes(np.shape(bound), box.shape) == box.shape
        except ValueError:
            fits = False
        if not fits:
            raise InputError(f"Box: {side} has the shape {np.shape(bound)}, which does not broadcast to {box.shape}")
        if np.isnan(bound).any():
            raise InputError(f"Box: {side} is nan; bounds are numbers, -inf or inf where there are none")
    low, high = (np.broadcast_to(bound, box.shape) for bound in (box.low, box.high))
    if (low > high).any():
        at = tuple(int(i) for i in np.argwhere(low > high)[0])
        where = f" at {list(at)}" if at else ""
        raise InputError(f"Box: low is {low[at]} and high is {high[at]}{where}; low must not be larger")


@pytree
class Dict(Space):
    """Named spaces, nested as deep as wanted; an element is a dict."""

    spaces: Mapping[str, Any] = number(kw_only=False)

    def __post_init__(self) -> None:
        """Hold the parts to spaces."""
        if isinstance(self.spaces, Space | list | tuple | str | type):
            raise InputError(f"Dict: spaces is {told(self.spaces)}; it must be a dict of spaces by name")
        for name, part in self.spaces.items() if isinstance(self.spaces, Mapping) else ():
            _check_part(part, f"Dict: '{name}'")

    def sample(self, key: jax.Array) -> dict[str, Any]:
        """Draw from every space, each with a key of its own."""
        keys = jax.random.split(key, len(self.spaces))
        return {name: self.spaces[name].sample(k) for name, k in zip(sorted(self.spaces), keys, strict=True)}

    def contains(self, value: Any) -> jax.Array:
        """Return bool[]: whether the names are the same and every part is inside."""
        if not isinstance(value, Mapping) or set(value) != set(self.spaces):
            return jnp.array(False)
        return jnp.all(jnp.stack([space.contains(value[name]) for name, space in self.spaces.items()]))

    @property
    def struct(self) -> dict[str, Any]:
        """A dict of the parts' structures."""
        return {name: space.struct for name, space in self.spaces.items()}


@pytree
class Stacked(Space):
    """The same space `n` times: what `n` agents see or do, stacked along a leading axis."""

    space: Any = number(kw_only=False)
    n: int = static(at_least=1, kw_only=False)

    def __post_init__(self) -> None:
        """Hold the space and the number of agents to their kinds."""
        _check_part(self.space, "Stacked: space")
        _set(self, "n", _count(self.n, "Stacked: n"))

    def sample(self, key: jax.Array) -> Any:
        """Draw for every agent with a key of its own."""
        return jax.vmap(self.space.sample)(jax.random.split(key, self.n))

    def contains(self, value: Any) -> jax.Array:
        """Return bool[]: whether every agent's part is inside."""
        leaves, structure = jax.tree.flatten(self.struct)
        if jax.tree.structure(value) != structure:
            return jnp.array(False)
        fits = all(_fits(x, leaf) for x, leaf in zip(jax.tree.leaves(value), leaves, strict=True))
        return jnp.all(jax.vmap(self.space.contains)(value)) if fits else jnp.array(False)

    @property
    def struct(self) -> Any:
        """The space's structure with a leading axis."""
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((self.n, *leaf.shape), leaf.dtype), self.space.struct)


def _check_part(part: Any, what: str) -> None:
    """Raise an `InputError` for what is no space; JAX puts other things than spaces here, such as axes of a vmap."""
    foreign = type(part).__module__.partition(".")[0] in ("gymnasium", "gym", "gymnax", "dm_env", "brax", "jumanji")
    if foreign or isinstance(part, str | list | tuple | Mapping | type):
        raise InputError(f"{what} is {told(part)}; it must be one of purerl.spaces")


def form(space: Space) -> Any:
    """Return what an agent's networks depend on: the parts, shapes and dtypes of a space, and how many choices it has.

    Bounds of numbers are left out: two spaces of one form may have others.
    """
    match space:
        case Dict():
            return {name: form(part) for name, part in space.spaces.items()}
        case Stacked():
            return space.n, form(space.space)
        case Discrete() | MultiDiscrete():
            return str(space)
    return space.struct


def unstacked(space: Space) -> Space:
    """Return a space whose stacks hold no longer the frames of consecutive steps: a replay must keep them whole."""
    if isinstance(space, Dict):
        return Dict(spaces={name: unstacked(part) for name, part in space.spaces.items()})
    return dataclasses.replace(space, stack=1) if isinstance(space, Box) and space.stack > 1 else space


def leaves(space: Space) -> list[Space]:
    """Return the spaces of the leaves of an element, in the order of `jax.tree.leaves`."""
    if isinstance(space, Dict):
        return [leaf for name in sorted(space.spaces) for leaf in leaves(space.spaces[name])]
    return [space]


def parts(space: Space, value: Any) -> list[tuple[Space, Any]]:
    """Return the leaves of a space beside those of an element, in the order of their names."""
    if isinstance(space, Dict):
        return [part for name in sorted(space.spaces) for part in parts(space.spaces[name], value[name])]
    return [(space, value)]


def element(space: Space, value: Any) -> Any:
    """Return what stands for an element, or a batch of them, with the names of the space and NumPy or JAX arrays.

    A tuple or a list stands for a `Dict` whose names are "0", "1", ...; a list or a number for an array.

    Raises:
      ValueError: if it is not built as the space is.
    """
    space = _parts_of_stack(space)
    if isinstance(space, Dict):
        names = [str(i) for i in range(len(space.spaces))]
        if isinstance(value, tuple | list) and set(names) == set(space.spaces) and len(value) == len(names):
            value = dict(zip(names, value, strict=True))
        if not isinstance(value, Mapping) or set(value) != set(space.spaces):
            raise ValueError(f"a {type(value).__name__} is not a dict of {', '.join(space.spaces)}")
        return {name: element(part, value[name]) for name, part in space.spaces.items()}
    array = value if isinstance(value, jax.Array) else np.asarray(value)  # a ValueError for lists of unequal lengths
    if array.dtype.kind not in "biuf":
        raise ValueError(f"a {type(value).__name__} is not an array of numbers")
    return array


def _parts_of_stack(space: Space) -> Space:
    """Return a stack of dicts as a dict of stacks."""
    if isinstance(space, Stacked) and isinstance(space.space, Dict):
        return Dict(spaces={name: Stacked(space=part, n=space.n) for name, part in space.space.spaces.items()})
    return space


def flat(space: Space, value: Any) -> jax.Array:
    """Return elements of a space as vectors, f32[..., n]: choices as one-hot, the parts of a dict side by side."""
    pieces = []
    for part, x in parts(space, value):
        match part:
            case Discrete(n=n):
                pieces.append(jax.nn.one_hot(x, n, dtype=jnp.float32))
            case MultiDiscrete(nvec=nvec):
                pieces += [jax.nn.one_hot(x[..., i], n, dtype=jnp.float32) for i, n in enumerate(nvec)]
            case _:
                shape = part.struct.shape
                pieces.append(x.reshape(*x.shape[: x.ndim - len(shape)], math.prod(shape)).astype(jnp.float32))
    return pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces, axis=-1)
