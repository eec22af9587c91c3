"""Images in observations: which arrays are images, where their channels are, and bytes as numbers."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from purerl.spaces import Box, Space
from purerl.types import Array

MOST_CHANNELS = 16  # for an image whose channels, or stacked frames, come first


def image_shape(space: Space) -> tuple[int, int, int] | None:
    """Return (height, width, channels) of a space's images; None if it has none.

    Three axes are an image, with the channels last unless the first axis is the shortest. Four axes are stacked frames
    where they hold bytes: [frames, height, width, channels] or [frames, channels, height, width].
    """
    if not isinstance(space, Box):
        return None
    shape = space.shape
    if len(shape) == 3:
        if not _channels_first(space):
            return shape
        channels, height, width = shape
        return height, width, channels
    if len(shape) == 4 and _is_bytes(space):
        frames, rest = shape[0], shape[1:]
        *sides, channels = (*rest[1:], rest[0]) if rest[0] < rest[2] else rest
        if frames * channels <= 4 * MOST_CHANNELS and frames < min(sides) and channels <= 4 < min(sides):
            return sides[0], sides[1], frames * channels
    return None


def _channels_first(space: Box) -> bool:
    channels, height, width = space.shape
    return channels <= MOST_CHANNELS and channels < min(height, width) and (height == width or _is_bytes(space))


def _is_bytes(space: Box) -> bool:
    return jnp.dtype(space.dtype) == jnp.uint8


def is_moved(space: Space) -> bool:
    """Return whether the images of a space reach a network with their axes in another order."""
    shape = image_shape(space)
    return shape is not None and shape != space.struct.shape


def as_image(space: Space, x: Array) -> Array:
    """Return the images of a space, with any leading axes, as [..., height, width, channels]."""
    shape = image_shape(space)
    assert shape is not None
    given = space.struct.shape
    if shape == given:
        return x
    if len(given) == 4:
        if given[1] < given[3]:  # [frames, channels, height, width]
            x = x.reshape(*x.shape[:-4], math.prod(given[:2]), *given[2:])
        else:
            return jnp.moveaxis(x, -4, -2).reshape(*x.shape[:-4], *shape)
    return jnp.moveaxis(x, -3, -1)


def numbers(space: Space, x: Array) -> Array:
    """Return a network's input, f32[..., *]: bytes are divided by their upper bound."""
    if x.dtype != jnp.uint8:
        return x.astype(jnp.float32)
    return x.astype(jnp.float32) / _upper(space)


def is_full_bytes(space: Space) -> bool:
    """Return whether a space's bytes reach 255, so that `numbers` divides them by 255."""
    return isinstance(_upper(space), float)


def _upper(space: Space) -> float | Array:
    high = space.high if isinstance(space, Box) else 255
    if isinstance(high, jax.Array):
        return jnp.maximum(high.astype(jnp.float32), 1.0)
    high = np.maximum(np.asarray(high, np.float32), 1.0)
    return 255.0 if (high == 255).all() else jnp.asarray(high)
