"""Layers and torsos: networks that turn observations into features."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.linen.dtypes import promote_dtype

from purerl.networks.gated_rnn import GRU, LSTM
from purerl.networks.gated_transformer import GatedTransformer
from purerl.networks.linear_rnn import LINEAR_RNNS
from purerl.spaces import Box, Space, flat, parts
from purerl.types import Array, Key, PyTree
from purerl.xla.accumulation import IMAGE_SIDE
from purerl.xla.convolution import PART, convolve, few_images_are_faster
from purerl.xla.product import multiply

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
}


class Initializer(Protocol):
    """Draws the initial weights of a layer."""

    def __call__(self, key: Key, shape: Any, dtype: Any = ..., /) -> Array:
        """Return an array of this shape and dtype."""
        ...


def orthogonal(scale: float = 1.0) -> Initializer:
    """Return an initializer: a matrix with orthonormal rows or columns times `scale`.

    It orthogonalizes by Gram-Schmidt, twice per row, rather than by LAPACK's QR: a batched QR (this under a vmap
    over seeds) can hang XLA's CPU backend.

    Source: Saxe et al. (2014), arXiv:1312.6120.
    """

    def init(key: Key, shape: Sequence[int], dtype: Any = jnp.float32) -> Array:
        rows, columns = math.prod(shape[:-1]), shape[-1]
        wide = jax.random.normal(key, (min(rows, columns), max(rows, columns)), dtype)

        def orthonormalize(i: Array, q: Array) -> Array:
            row, before = q[i], jnp.arange(q.shape[0]) < i
            for _ in range(2):
                row = row - jnp.where(before, q @ row, 0.0) @ q
            return q.at[i].set(row / jnp.linalg.norm(row))

        q = jax.lax.fori_loop(0, wide.shape[0], orthonormalize, wide)
        return scale * (q.T if rows >= columns else q).reshape(shape)

    return init


def normal(scale: float = 1.0) -> Initializer:
    """Return an initializer: independent normal weights of variance scale^2 / inputs.

    Unlike orthogonal weights they pass small observations on in their size where a layer has more outputs than inputs,
    which values learned from replay gain from in the end: DQN reaches 494 in 250,000 steps of CartPole-v1, 383 with
    those; in 50,000 it reaches 180, after a faster start, and 327 with those.

    Source: He et al. (2015), arXiv:1502.01852, with a scale of sqrt 2.
    """
    return nn.initializers.variance_scaling(scale**2, "fan_in", "normal")


INITIALIZERS: dict[str, Callable[[float], Initializer]] = {"orthogonal": orthogonal, "normal": normal}


def dense(features: int, scale: float, dtype: Any = jnp.float32, initializer: str = "orthogonal") -> nn.Dense:
    """Return a dense layer with weights of gain `scale` and zero biases, computed in `dtype`."""
    kernel_init = INITIALIZERS[initializer](scale)
    return nn.Dense(features, kernel_init=kernel_init, dtype=dtype, dot_general=multiply)


class MLP(nn.Module):
    """Dense layers of weights of one gain, an activation after each: f32[..., n] -> [..., hidden_sizes[-1]]."""

    hidden_sizes: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    layer_norm: bool = False
    dtype: Any = jnp.float32
    initializer: str = "orthogonal"
    gain: float = 2**0.5

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Apply the layers to the last axis."""
        for size in self.hidden_sizes:
            x = dense(size, self.gain, self.dtype, self.initializer)(x)
            if self.layer_norm:
                x = nn.LayerNorm(dtype=self.dtype)(x)
            x = ACTIVATIONS[self.activation](x)
        return x


class ResidualMLP(nn.Module):
    """A linear layer, a residual block of each of `hidden_sizes`, a layer norm: f32[..., n] -> [..., hidden_sizes[-1]].

    A block adds to its input what two dense layers, the first four times as wide, make of its layer norm.

    Source: Lee et al. (2024), "SimBa", arXiv:2410.09754.
    """

    hidden_sizes: tuple[int, ...] = (64, 64)
    activation: str = "relu"
    dtype: Any = jnp.float32
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Apply the layers to the last axis."""
        layer = lambda size, scale: dense(size, scale, self.dtype, self.initializer)
        for index, size in enumerate(self.hidden_sizes):
            if index == 0 or x.shape[-1] != size:
                x = layer(size, 1.0)(x)
            wide = layer(4 * size, 2**0.5)(nn.LayerNorm(dtype=self.dtype)(x))
            x = x + layer(size, 1.0)(ACTIVATIONS[self.activation](wide))
        return nn.LayerNorm(dtype=self.dtype)(x) if self.hidden_sizes else x


def numbers(x: Array) -> Array:
    """Return what a network takes: f32, bytes divided by 255."""
    return x.astype(jnp.float32) / 255.0 if x.dtype == jnp.uint8 else x.astype(jnp.float32)


class Conv(nn.Module):
    """A convolution with a bias, `xla.convolution.convolve`; its parameters are those of `flax.linen.Conv`."""

    features: int
    size: int  # of the kernel's sides
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

    `layers` holds (features, kernel, stride) of each. There is no padding but what lets the last stride reach the edge:
    without it an image of 42 pixels would lose 6 of them on the way through two layers, Pong its paddle among them.
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
        for features, kernel, stride in self.layers:
            padding = tuple((0, (kernel - size) % stride) for size in x.shape[-3:-1])
            x = Conv(
                features=features,
                size=kernel,
                stride=stride,
                padding=padding,
                kernel_init=INITIALIZERS[self.initializer](2**0.5),
                dtype=self.dtype,
            )(x)
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

        def conv(features: int) -> Conv:
            return Conv(
                features=features,
                size=3,
                stride=1,
                padding="SAME",
                kernel_init=INITIALIZERS[self.initializer](2**0.5),
                dtype=self.dtype,
            )

        for features in self.channels:
            x = nn.max_pool(conv(features)(x), (3, 3), (2, 2), padding="SAME")
            for _ in range(2):
                x = x + conv(features)(jax.nn.relu(conv(features)(jax.nn.relu(x))))
        return jax.nn.relu(x).reshape(x.shape[0], -1)


class MakeCNN(Protocol):
    """Makes a network for images."""

    def __call__(self, *, layer_norm: bool, dtype: Any, initializer: str) -> nn.Module:
        """Return the module; arguments as the settings of `Torso`."""
        ...


def in_parts(module: CNN | ResidualCNN, x: Array) -> Array:
    """Apply a module's layers to images [..., height, width, channels], on a CPU to at most `PART` at once.

    Bytes become numbers there. So many go through all layers while they are in the cache: Nature's network passes 256
    images 1.5 times as fast as in parts of each layer. The parts are alike; what the last one lacks are black images.
    """
    images = x.reshape(-1, *x.shape[-3:])
    whole = not few_images_are_faster() or module.is_initializing()
    num = images.shape[0]
    if whole or num <= PART:
        return module.layers_of(numbers(images)).reshape(*x.shape[:-3], -1)
    parts = -(-num // PART)
    size = -(-num // parts)
    full = jnp.pad(images, [(0, parts * size - num), (0, 0), (0, 0), (0, 0)])
    scan: Any = nn.scan(
        lambda module, carry, part: (carry, module.layers_of(numbers(part))),
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
TORSOS = ("auto", "mlp", "simba", *CNNS)


class Torso(nn.Module):
    """A network from an observation to features: images, if there are any, through a CNN; all together through an MLP.

    A choice becomes one-hot, bytes are divided by 255, a single number n that counts, such as the steps so far, goes in
    as sign(n) log(1 + |n|), and the parts of a dict are put side by side in the order of their names. `kind` "auto"
    takes the MinAtar network for images below 36 pixels, Nature's for larger ones, and only the MLP where there is no
    image; "mlp" flattens images; "simba" is "auto" with residual blocks for the MLP.
    """

    space: Space
    kind: str = "auto"
    hidden_sizes: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    layer_norm: bool = False
    dtype: Any = jnp.float32
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, observation: PyTree) -> Array:
        """Map an observation with any leading axes to [..., hidden_sizes[-1]]."""
        features = [self._encode(space, part) for space, part in parts(self.space, observation)]
        x = features[0] if len(features) == 1 else jnp.concatenate(features, axis=-1)
        if self.kind == "simba":
            return ResidualMLP(
                self.hidden_sizes, activation=self.activation, dtype=self.dtype, initializer=self.initializer
            )(x)
        return MLP(
            self.hidden_sizes,
            activation=self.activation,
            layer_norm=self.layer_norm,
            dtype=self.dtype,
            initializer=self.initializer,
        )(x)

    def _encode(self, space: Space, x: Array) -> Array:
        if not isinstance(space, Box):
            return flat(space, x)
        count = space.shape == () and jnp.issubdtype(x.dtype, jnp.integer)
        kind = self.kind
        if kind in ("auto", "simba"):
            small = len(space.shape) == 3 and space.shape[0] < IMAGE_SIDE
            kind = "mlp" if len(space.shape) != 3 else "minatar" if small else "nature"
        if kind != "mlp" and len(space.shape) == 3:
            return CNNS[kind](layer_norm=self.layer_norm, dtype=self.dtype, initializer=self.initializer)(x)
        x = numbers(x)
        return flat(space, jnp.sign(x) * jnp.log1p(jnp.abs(x)) if count else x)


RNNS: dict[str, Callable[[int], nn.RNNCellBase]] = {
    "gru": lambda size: GRU(size, recurrent_kernel_init=orthogonal()),
    "lstm": lambda size: LSTM(size, recurrent_kernel_init=orthogonal()),
    **LINEAR_RNNS,
    "gtrxl": GatedTransformer,
}


def apply(module: nn.Module, params: PyTree, *args: Any) -> Any:
    """Apply a module to its own parameters."""
    return module.apply({"params": params}, *args)


def init(module: nn.Module, key: Key, *args: Any) -> PyTree:
    """Return the parameters of a module, initialized on example inputs; {} of one that has none."""
    return module.init(key, *args).get("params", {})
