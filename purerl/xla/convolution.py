"""Convolutions as matrix products, fast on a CPU, even inside loops.

XLA's CPU backend computes the gradient of a convolution inside a `lax.scan` or `while_loop`, where training happens, by
plain loops: an update of PPO with the Nature network took 10 s in place of 0.4 s. Products are fast in both directions,
so JAX's own gradient of them serves. Large batches go through a network in parts whose patches stay in the cache. Where
there is no gradient, as in acting, a kernel of few taps needs no patches: Nature's network passes 32 images 1.3 to 1.5
times as fast so. The gradient of the bias is a product, too: with sums by XLA's own code that network trained at two
thirds of the speed.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from purerl.types import Array, PyTree
from purerl.xla import backend, switches

PART = 32  # images that go through a network at once
TAPS = 4  # taps up to which a product of pixels and all taps is faster than one of patches, without a gradient
FEW = 128  # taps x channels up to which one product of whole patches is faster than one for each row of the kernel


def few_images_are_faster() -> bool:
    """Return whether it is faster to process a batch of images in chunks of `PART`, which fit in a CPU's cache."""
    return backend.name() == "cpu" and switches.is_on("convolution")


def convolve(inputs: Array, kernel: Array, bias: Array, strides: tuple[int, int], padding: Any) -> Array:
    """Return a convolution plus a bias, as `lax.conv_general_dilated` without dilation or groups.

    Args:
      inputs: f32[N, height, width, channels].
      kernel: f32[kernel height, kernel width, channels, features].
      bias: f32[features].
      strides: the strides of both axes.
      padding: "VALID", "SAME", or (before, after) of both axes.
    """
    if isinstance(padding, str):
        padding = jax.lax.padtype_to_pads(inputs.shape[1:3], kernel.shape[:2], strides, padding)
    padded = jnp.pad(inputs, ((0, 0), *padding, (0, 0)))
    if backend.name() != "cpu" or not switches.is_on("convolution"):
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(padded, kernel, strides, "VALID", dimension_numbers=numbers) + bias
    return _on_cpu(strides, padded, kernel, bias)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _on_cpu(strides: tuple[int, int], inputs: Array, kernel: Array, bias: Array) -> Array:
    """Return a convolution without padding; without a gradient, by the method with the fastest forward pass."""
    images, taps = _blocks(inputs, kernel, strides)
    few = taps.shape[0] * taps.shape[1] <= TAPS
    return _shifted(images, taps) + bias if few else _products(images, taps, bias)


def _differentiated(strides: tuple[int, int], primals: PyTree, tangents: PyTree) -> tuple[Array, Array]:
    """Return the convolution, as products of patches, and its tangent; an argument may have no tangent."""
    moving = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, SymbolicZero)]

    def of(*moved: Array) -> Array:
        arguments = list(primals)
        for i, x in zip(moving, moved, strict=True):
            arguments[i] = x
        inputs, kernel, bias = arguments
        return _products(*_blocks(inputs, kernel, strides), bias)

    return jax.jvp(of, [primals[i] for i in moving], [tangents[i] for i in moving])


_on_cpu.defjvp(_differentiated, symbolic_zeros=True)


def _blocks(inputs: Array, kernel: Array, strides: tuple[int, int]) -> tuple[Array, Array]:
    """Return image and kernel in blocks of stride x stride pixels, each block one pixel with more channels.

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


def _products(images: Array, kernel: Array, bias: Array) -> Array:
    """Return a convolution with stride 1: one product of all patches and the kernel, or one per kernel row.

    They are products of two axes: with more, XLA copies the other factor of the kernel's gradient to swap its axes.
    """
    rows, columns, channels, features = kernel.shape
    high, wide = images.shape[1] - rows + 1, images.shape[2] - columns + 1
    across = jnp.concatenate([images[:, :, j : j + wide] for j in range(columns)], axis=-1)
    if rows * columns * channels <= FEW:
        factors = [jnp.concatenate([across[:, i : i + high] for i in range(rows)], axis=-1)]
    else:
        factors = [across[:, i : i + high] for i in range(rows)]
    taps = kernel.reshape(len(factors), -1, features)
    flat = [x.reshape(-1, x.shape[-1]) @ tap for x, tap in zip(factors, taps, strict=True)]
    return _biased(sum(flat[1:], flat[0]), bias).reshape(len(images), high, wide, features)


@jax.custom_jvp
def _biased(x: Array, bias: Array) -> Array:
    """Return f[N, features] plus f[features]; the gradient of the bias is a product.

    As a sum over N it would be fused with all that leads to it, and that computed twice, in the order of N.
    """
    return x + bias


@_biased.defjvp
def _biased_tangent(primals: PyTree, tangents: PyTree) -> tuple[Array, Array]:
    x, bias = tangents
    return _biased(*primals), x + jnp.ones((len(x), 1), x.dtype) @ bias[None]


def _shifted(images: Array, kernel: Array) -> Array:
    """Return a convolution with stride 1: one product of the pixels with all taps, and the sum over the taps.

    No patches are made, but more is multiplied, as pixels at an edge meet taps that are none of theirs.
    """
    rows, columns, channels, _ = kernel.shape
    high, wide = images.shape[1] - rows + 1, images.shape[2] - columns + 1
    added = images @ kernel.transpose(2, 0, 1, 3).reshape(channels, -1)
    parts = jnp.split(added, rows * columns, axis=-1)
    moved = [part[:, i : i + high, j : j + wide] for part, (i, j) in zip(parts, np.ndindex(rows, columns), strict=True)]
    return sum(moved[1:], moved[0])
