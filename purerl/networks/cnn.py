"""Convolutional networks: images to features."""

from functools import partial
from typing import Any, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.linen.dtypes import promote_dtype

from purerl.networks.initializers import INITIALIZERS, Initializer
from purerl.types import Array
from purerl.xla.convolution import PART, convolve, few_images_are_faster


def _numbers(x: Array) -> Array:
    """Return images as f32: bytes divided by 255; other bounds are already scaled by `images.numbers`."""
    return x.astype(jnp.float32) / 255.0 if x.dtype == jnp.uint8 else x.astype(jnp.float32)


class Conv(nn.Module):
    """A convolution with a bias, `xla.convolution.convolve`; its parameters are named as in `flax.linen.Conv`."""

    features: int
    size: int  # side of the kernel
    stride: int
    padding: Any
    kernel_init: Initializer
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Map f[N, height, width, channels] -> [N, height', width', features]."""
        kernel = self.param("kernel", self.kernel_init, (self.size, self.size, x.shape[-1], self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        x, kernel, bias = promote_dtype(x, kernel, bias, dtype=self.dtype)
        return convolve(x, kernel, bias, (self.stride, self.stride), self.padding)


class CNN(nn.Module):
    """Convolutions with ReLU, flattened: images [..., height, width, channels] of numbers or bytes -> f32[..., n].

    `layers` holds (features, kernel, stride) of each. Padding is only what lets the last stride reach the edge: without
    it an image of 42 pixels would lose 6 of them on the way through two layers, Pong its paddle among them.
    """

    layers: tuple[tuple[int, int, int], ...]
    layer_norm: bool = False
    dtype: Any = jnp.float32
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Apply the convolutions to the last three axes."""
        return in_parts(self, x)

    def layers_of(self, x: Array) -> Array:
        """Apply the convolutions to images f32[N, height, width, channels] -> [N, n]."""
        conv = partial(Conv, kernel_init=INITIALIZERS[self.initializer](2**0.5), dtype=self.dtype)
        for features, kernel, stride in self.layers:
            padding = tuple((0, (kernel - size) % stride) for size in x.shape[-3:-1])
            x = conv(features=features, size=kernel, stride=stride, padding=padding)(x)
            if self.layer_norm:
                x = nn.LayerNorm(dtype=self.dtype)(x)
            x = jax.nn.relu(x)
        return x.reshape(x.shape[0], -1)


class ResidualCNN(nn.Module):
    """IMPALA's residual network: three blocks of a convolution, a max-pool and two residual pairs.

    Source: Espeholt et al. (2018), arXiv:1802.01561, figure 3, right.
    """

    channels: tuple[int, ...] = (16, 32, 32)
    dtype: Any = jnp.float32
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Map images [..., height, width, channels] of numbers or bytes -> f32[..., n]."""
        return in_parts(self, x)

    def layers_of(self, x: Array) -> Array:
        """Map images f32[N, height, width, channels] -> [N, n]."""
        kernel_init = INITIALIZERS[self.initializer](2**0.5)
        conv = partial(Conv, size=3, stride=1, padding="SAME", kernel_init=kernel_init, dtype=self.dtype)
        for features in self.channels:
            x = nn.max_pool(conv(features=features)(x), (3, 3), (2, 2), padding="SAME")
            for _ in range(2):
                x = x + conv(features=features)(jax.nn.relu(conv(features=features)(jax.nn.relu(x))))
        return jax.nn.relu(x).reshape(x.shape[0], -1)


class MakeCNN(Protocol):
    """A function that makes a network for images."""

    def __call__(self, *, layer_norm: bool, dtype: object, initializer: str) -> nn.Module:
        """Return the module; arguments as the settings of `Torso`."""
        ...


def in_parts(module: CNN | ResidualCNN, x: Array) -> Array:
    """Apply a module's layers to images [..., height, width, channels]; on a CPU, to at most `PART` at once.

    Bytes become numbers there. A part goes through all layers while it is in the cache: Nature's network processes 256
    images 1.5 times as fast as with parts of each layer. The parts have one size; black images fill the last one.
    """
    images = x.reshape(-1, *x.shape[-3:])
    whole = not few_images_are_faster() or module.is_initializing()
    num = images.shape[0]
    if whole or num <= PART:
        return module.layers_of(_numbers(images)).reshape(*x.shape[:-3], -1)
    parts = -(-num // PART)
    size = -(-num // parts)
    full = jnp.pad(images, [(0, parts * size - num), (0, 0), (0, 0), (0, 0)])
    scan: Any = nn.scan(
        lambda module, carry, part: (carry, module.layers_of(_numbers(part))),
        variable_broadcast="params",
        split_rngs={"params": False},
    )
    _, outputs = scan(module, (), full.reshape(parts, size, *images.shape[1:]))
    return outputs.reshape(parts * size, -1)[:num].reshape(*x.shape[:-3], -1)


CNNS: dict[str, MakeCNN] = {
    # Young and Tian (2019), arXiv:1903.03176
    "minatar": partial(CNN, ((16, 3, 1),)),
    # Mnih et al. (2013), arXiv:1312.5602: a third of the arithmetic of the next one
    "mnih2013": partial(CNN, ((16, 8, 4), (32, 4, 2))),
    # Mnih et al. (2015), doi:10.1038/nature14236
    "nature": partial(CNN, ((32, 8, 4), (64, 4, 2), (64, 3, 1))),
    "impala": lambda layer_norm, **settings: ResidualCNN((16, 32, 32), **settings),
}
