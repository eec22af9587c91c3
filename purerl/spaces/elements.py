"""Functions of a space and its elements: their form, their leaves, and elements as vectors."""

import dataclasses
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import kind_of
from purerl.fields import PyTree
from purerl.spaces.box import Box
from purerl.spaces.composite import Dict, Stacked
from purerl.spaces.discrete import Discrete, MultiDiscrete
from purerl.spaces.space import Space


def form(space: Space) -> PyTree:
    """Return the properties of a space that an agent's networks depend on: parts, shapes, dtypes, numbers of choices.

    Bounds of numbers are left out: they may differ between two spaces of one form.
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
    """Return a space whose stacks no longer hold consecutive frames, so that a replay must store them completely."""
    if isinstance(space, Dict):
        return Dict(spaces={name: unstacked(part) for name, part in space.spaces.items()})
    return dataclasses.replace(space, stack=1) if isinstance(space, Box) and space.stack > 1 else space


def leaves(space: Space) -> list[Space]:
    """Return the spaces of the leaves of an element, in the order of `jax.tree.leaves`."""
    if isinstance(space, Dict):
        return [leaf for name in sorted(space.spaces) for leaf in leaves(space.spaces[name])]
    return [space]


def parts(space: Space, value: PyTree) -> list[tuple[Space, PyTree]]:
    """Return pairs of a space's leaves and an element's leaves, in the order of their names."""
    if isinstance(space, Dict):
        return [part for name in sorted(space.spaces) for part in parts(space.spaces[name], value[name])]
    return [(space, value)]


def element(space: Space, value: object) -> PyTree:
    """Return a value as an element of a space, or as a batch of them: its names, and NumPy or JAX arrays.

    A tuple or a list may represent a `Dict` whose names are "0", "1", ...; a list or a number an array.

    Raises:
      ValueError: if it is not built as the space is.
    """
    space = _parts_of_stack(space)
    if isinstance(space, Dict):
        names = [str(i) for i in range(len(space.spaces))]
        if isinstance(value, tuple | list) and set(names) == set(space.spaces) and len(value) == len(names):
            value = dict(zip(names, value, strict=True))
        if not isinstance(value, Mapping) or set(value) != set(space.spaces):
            raise ValueError(f"{kind_of(value)} is not a dict of {', '.join(space.spaces)}")
        return {name: element(part, value[name]) for name, part in space.spaces.items()}
    array = value if isinstance(value, jax.Array) else np.asarray(value)  # a ValueError for lists of unequal lengths
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{kind_of(value)} is not an array of numbers")
    return array


def _parts_of_stack(space: Space) -> Space:
    """Return a stack of dicts as a dict of stacks."""
    if isinstance(space, Stacked) and isinstance(space.space, Dict):
        return Dict(spaces={name: Stacked(space=part, n=space.n) for name, part in space.space.spaces.items()})
    return space


def flat(space: Space, value: object) -> jax.Array:
    """Return elements of a space as vectors, f32[..., n]: choices as one-hot, the parts of a dict concatenated."""
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
