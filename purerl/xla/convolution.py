"""Convolutions as plain products, fast on a CPU, inside loops as well.

XLA's CPU backend computes the gradient of a convolution inside a `lax.scan` or `while_loop`, where training happens, by
plain loops: an update of PPO with the Nature network took 10 s in place of 0.4 s. Products are fast in both directions,
so JAX's own gradient of them serves. Large batches go through a network in parts whose patches stay in the cache.
"""

from typing import Any

import jax
import jax.numpy as jnp

from purerl.types import Array
from purerl.xla import backend, switches

PART = 32  # images that go through a network at once
FEW = 128  # taps x channels up to which one product of whole patches is faster than one for each row of the kernel


def convolve(inputs: Array, kernel: Array, strides: Any, padding: Any, *_: Any, **__: Any) -> Array:
    """Return a convolution, as `lax.conv_general_dilated` without dilation or groups; for `flax.linen.Conv`.

    Args:
      inputs: f32[N, height, width, channels].
      kernel: f32[kernel height, kernel width, channels, features].
      strides: of both axes.
      padding: "VALID", "SAME", or (before, after) of both axes.
    """
    if isinstance(padding, str):
        padding = jax.lax.padtype_to_pads(inputs.shape[1:3], kernel.shape[:2], strides, padding)
    padded = jnp.pad(inputs, ((0, 0), *padding, (0, 0)))
    if backend.name() != "cpu" or not switches.is_on("convolution"):
        return jax.lax.conv_general_dilated(
            padded, kernel, tuple(strides), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
    images, taps = _blocks(padded, kernel, tuple(strides))
    return _products(images, taps)


def _blocks(inputs: Array, kernel: Array, strides: tuple[int, int]) -> tuple[Array, Array]:
    """Return image and kernel in blocks of stride x stride pixels, each one pixel of so many channels.

    Their convolution with stride 1 is the one of `inputs` and `kernel` with `strides`.
    """
    (down, across), (rows, columns) = strides, kernel.shape[:2]
    size = [(n - k) // s - -k // s for n, k, s in zip(inputs.shape[1:3], kernel.shape[:2], strides, strict=True)]
    edge = [(0, s * n - have) for n, s, have in zip(size, strides, inputs.shape[1:3], strict=True)]
    inputs = jax.lax.pad(inputs, jnp.zeros((), inputs.dtype), [(0, 0, 0), *((*e, 0) for e in edge), (0, 0, 0)])
    kernel = jnp.pad(kernel, ((0, -rows % down), (0, -columns % across), (0, 0), (0, 0)))
    blocks = inputs.reshape(len(inputs), size[0], down, size[1], across, -1).transpose(0, 1, 3, 2, 4, 5)
    taps = kernel.reshape(-(-rows // down), down, -(-columns // across), across, *kernel.shape[2:])
    taps = taps.transpose(0, 2, 1, 3, 4, 5)
    return blocks.reshape(len(inputs), *size, -1), taps.reshape(*taps.shape[:2], -1, kernel.shape[-1])


def _products(images: Array, kernel: Array) -> Array:
    """Return a convolution with stride 1: a product of all patches and the kernel, or one for each of its rows."""
    rows, columns, channels, features = kernel.shape
    high, wide = images.shape[1] - rows + 1, images.shape[2] - columns + 1
    across = jnp.concatenate([images[:, :, j : j + wide] for j in range(columns)], axis=-1)
    if rows * columns * channels <= FEW:
        patches = jnp.concatenate([across[:, i : i + high] for i in range(rows)], axis=-1)
        return patches @ kernel.reshape(-1, features)
    by_row = kernel.reshape(rows, -1, features)
    return sum((across[:, i : i + high] @ by_row[i] for i in range(1, rows)), across[:, :high] @ by_row[0])
