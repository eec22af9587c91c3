"""Conversions of our spaces to Gymnasium's spaces and dm_env's specs."""

import functools
from collections import namedtuple
from typing import Any

import jax
import numpy as np

from purerl.errors import InputError
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Space


def to_gymnasium(space: Space) -> Any:
    """Return the Gymnasium space with the same shape, dtype and bounds.

    Raises:
      InputError: for a space of the user's own.
    """
    from gymnasium import spaces

    if isinstance(space, Discrete):
        return spaces.Discrete(space.n)
    if isinstance(space, MultiDiscrete):
        return spaces.MultiDiscrete(list(space.nvec), dtype=np.int32)
    if isinstance(space, Dict):
        return spaces.Dict({name: to_gymnasium(part) for name, part in space.spaces.items()})
    if isinstance(space, Box):
        dtype = np.dtype(space.dtype)
        if dtype == np.bool_:
            return spaces.MultiBinary(list(space.shape))
        low, high = (np.broadcast_to(np.asarray(bound, dtype), space.shape) for bound in (space.low, space.high))
        return spaces.Box(low=low, high=high, shape=space.shape, dtype=dtype.type)
    raise InputError(f"{type(space).__name__} has no counterpart in Gymnasium")


def to_dm(space: Space, name: str) -> Any:
    """Return the dm_env spec with the same shape, dtype and bounds; a named tuple for a `Dict`.

    Raises:
      InputError: for a space of the user's own.
    """
    from dm_env import specs

    if isinstance(space, Discrete):
        return specs.DiscreteArray(space.n, np.int32, name)
    if isinstance(space, MultiDiscrete):
        return specs.BoundedArray((len(space.nvec),), np.int32, 0, np.asarray(space.nvec) - 1, name)
    if isinstance(space, Dict):
        return to_namedtuple(name, {key: to_dm(part, key) for key, part in space.spaces.items()})
    if isinstance(space, Box):
        if np.dtype(space.dtype) == np.bool_:
            return specs.BoundedArray(space.shape, np.bool_, False, True, name)
        return specs.BoundedArray(space.shape, space.dtype, np.asarray(space.low), np.asarray(space.high), name)
    raise InputError(f"{type(space).__name__} has no counterpart in dm_env")


def bounds(space: Space) -> tuple[Any, Any]:
    """Return a space's lower and upper bounds: scalars if they are the same for all of its numbers."""
    if isinstance(space, Discrete):
        return 0, space.n - 1
    if isinstance(space, MultiDiscrete):
        return 0, np.asarray(space.nvec) - 1
    if isinstance(space, Box):
        low, high = np.asarray(space.low), np.asarray(space.high)
        one = low.size and (low == low.flat[0]).all() and (high == high.flat[0]).all()
        return (low.flat[0].item(), high.flat[0].item()) if one else (low, high)
    raise InputError(f"{type(space).__name__} has no bounds")


def array_spec(struct: jax.ShapeDtypeStruct, name: str) -> Any:
    """Return dm_env's spec of an array without bounds."""
    from dm_env import specs

    return specs.Array(struct.shape, np.dtype(struct.dtype), name)


def id_spec() -> Any:
    """Return dm_env's spec of an environment's index."""
    from dm_env import specs

    info = np.iinfo(np.int32)
    return specs.BoundedArray((), np.int32, info.min, info.max, "env_id")


def to_namedtuple(name: str, values: object) -> Any:
    """Return nested dicts as nested named tuples."""
    if not isinstance(values, dict):
        return values
    return _type(name, tuple(values))(*[to_namedtuple(key, value) for key, value in values.items()])


@functools.cache
def _type(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields, rename=True)
