"""Actions in units of their box: the maps between a box with finite bounds and [-1, 1]."""

from typing import NamedTuple

import jax.numpy as jnp

from purerl.errors import InputError
from purerl.spaces import Box, Space
from purerl.types import Array


class UnitBox(NamedTuple):
    """The maps between a box of actions and [-1, 1]; `unit_box` makes it."""

    space: Box
    low: Array  # f32[n], or f32[]
    high: Array

    @property
    def size(self) -> int:
        """Return n, the numbers of an action."""
        return self.space.shape[0]

    def to_unit(self, action: Array) -> Array:
        """Map actions of the box to [-1, 1], f32[..., n]."""
        return (action - self.low) * 2.0 / (self.high - self.low) - 1.0

    def from_unit(self, unit: Array) -> Array:
        """Map [-1, 1] to actions of the box, f32[..., n], never outside it."""
        return self.space.clip(self.low + 0.5 * (unit + 1.0) * (self.high - self.low))


def unit_box(space: Space, what: str) -> UnitBox:
    """Return the maps between a box of actions and [-1, 1].

    Args:
      space: of the actions.
      what: the algorithm, for errors.

    Raises:
      InputError: if the actions are not a box of floats with one axis and finite bounds.
    """
    if not isinstance(space, Box) or len(space.shape) != 1 or not jnp.issubdtype(space.dtype, jnp.floating):
        raise InputError(f"{what}: needs continuous actions, a Box with one axis; this environment's are {space}")
    if space.is_unbounded:
        raise InputError(f"{what}: the bounds of the actions must be finite; they are {space.low} and {space.high}")
    return UnitBox(space=space, low=jnp.asarray(space.low, jnp.float32), high=jnp.asarray(space.high, jnp.float32))
