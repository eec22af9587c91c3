"""Actions scaled to their box: the maps between a box with finite bounds and [-1, 1]."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

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
        """Return n, the size of an action."""
        return self.space.shape[0]

    def to_unit(self, action: Array) -> Array:
        """Map actions of the box to [-1, 1], f32[..., n]; 0 where both bounds are equal."""
        width = self.high - self.low
        if self.has_width:
            return (action - self.low) * 2.0 / width - 1.0
        unit = (action - self.low) * 2.0 / jnp.where(width > 0, width, 1.0) - 1.0
        return jnp.where(width > 0, unit, 0.0)

    @property
    def has_width(self) -> bool:
        """Whether all upper bounds are known to lie above the lower ones."""
        low, high = self.space.low, self.space.high
        known = not isinstance(low, jax.Array) and not isinstance(high, jax.Array)
        return known and bool((np.asarray(high, np.float32) > np.asarray(low, np.float32)).all())

    def from_unit(self, unit: Array) -> Array:
        """Map [-1, 1] to actions of the box, f32[..., n], never outside it."""
        return self.space.clip(self.low + 0.5 * (unit + 1.0) * (self.high - self.low))


def unit_box(space: Space, what: str) -> UnitBox:
    """Return the maps between a box of actions and [-1, 1].

    Args:
      space: the space of the actions.
      what: the algorithm, for errors.

    Raises:
      InputError: if the actions are not a box of floats with one axis and finite bounds.
    """
    if not isinstance(space, Box) or len(space.shape) != 1 or not jnp.issubdtype(space.dtype, jnp.floating):
        raise InputError(f"{what}: needs continuous actions, a Box with one axis; this environment's are {space}")
    if space.is_unbounded:
        raise InputError(f"{what}: the bounds of the actions must be finite; they are {space.low} and {space.high}")
    return UnitBox(space=space, low=jnp.asarray(space.low, jnp.float32), high=jnp.asarray(space.high, jnp.float32))


NEAR, FAR = 0.1, 10.0  # how far from 0 bounds lie that a standard normal reaches on both sides, and not only by chance


def reaching(space: Box) -> Callable[[Array], Array]:
    """Return a map from samples near a standard normal, f32[..., n], to actions of a box, clipped to its bounds.

    If 0 lies inside the bounds, and they are neither narrow nor wide, samples are actions. Otherwise the samples from
    -1 to 1 span the range between the bounds; if one bound is infinite, samples lie about 1 inside the other one.
    """
    traced = isinstance(space.low, jax.Array) or isinstance(space.high, jax.Array)
    xp: Any = jnp if traced else np
    low, high = (xp.broadcast_to(xp.asarray(x, xp.float32), space.shape) for x in (space.low, space.high))
    below, above = xp.isfinite(low), xp.isfinite(high)
    fits = (low <= -NEAR) & (high >= NEAR) & ((low >= -FAR) | ~below) & ((high <= FAR) | ~above)
    least, most = xp.where(below, low, 0.0), xp.where(above, high, 0.0)
    center, half = 0.5 * (least + most), xp.where(below & above & ~fits, 0.5 * (most - least), 1.0)
    center = xp.where(below & ~above, xp.maximum(least + 1.0, 0.0), center)
    center = xp.where(above & ~below, xp.minimum(most - 1.0, 0.0), center)
    center = xp.where(fits, 0.0, center)
    if not traced and fits.all():
        return space.clip
    return lambda draw: space.clip(center + half * draw)
