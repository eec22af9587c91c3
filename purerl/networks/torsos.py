"""Layers and torsos: networks that turn observations into features."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from purerl.networks.cnn import CNNS
from purerl.networks.gated_rnn import GRU, LSTM
from purerl.networks.gated_transformer import GatedTransformer
from purerl.networks.images import as_image, image_shape, is_full_bytes, numbers
from purerl.networks.initializers import INITIALIZERS, orthogonal
from purerl.networks.linear_rnn import LINEAR_RNNS
from purerl.spaces import Box, Space, flat, parts
from purerl.types import Array, Key, PyTree
from purerl.xla.accumulation import IMAGE_SIDE
from purerl.xla.product import multiply

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
}


def dense(features: int, scale: float, dtype: DTypeLike = jnp.float32, initializer: str = "orthogonal") -> nn.Dense:
    """Return a dense layer with weights of gain `scale` and zero biases, computed in `dtype`."""
    kernel_init = INITIALIZERS[initializer](scale)
    return nn.Dense(features, kernel_init=kernel_init, dtype=dtype, dot_general=multiply)


class MLP(nn.Module):
    """Dense layers with weights of one gain, each followed by an activation: f32[..., n] -> [..., hidden_sizes[-1]]."""

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
    """A linear layer, residual blocks for `hidden_sizes`, and a layer norm: f32[..., n] -> [..., hidden_sizes[-1]].

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


TORSOS = ("auto", "mlp", "simba", *CNNS)


class Torso(nn.Module):
    """A network from an observation to features: images pass through a CNN, and everything through an MLP.

    A choice becomes one-hot, and bytes are divided by their upper bound. A single number n that counts, such as the
    steps so far, becomes sign(n) log(1 + |n|). The parts of a dict are concatenated in the order of their names.
    `kind` "auto" uses the MinAtar network for images below 36 pixels, Nature's for larger ones, and only the MLP if
    there is no image; "mlp" flattens images; "simba" is "auto" with residual blocks for the MLP. Channels and stacked
    frames that come first are moved to the end.
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
        kind, image = self.kind, image_shape(space)
        if kind in ("auto", "simba"):
            kind = "mlp" if image is None else "minatar" if image[0] < IMAGE_SIDE else "nature"
        if kind != "mlp" and image is not None:
            x = as_image(space, x if is_full_bytes(space) else numbers(space, x))
            return CNNS[kind](layer_norm=self.layer_norm, dtype=self.dtype, initializer=self.initializer)(x)
        x = numbers(space, x)
        return flat(space, jnp.sign(x) * jnp.log1p(jnp.abs(x)) if count else x)


RNNS: dict[str, Callable[[int], nn.RNNCellBase]] = {
    "gru": lambda size: GRU(size, recurrent_kernel_init=orthogonal()),
    "lstm": lambda size: LSTM(size, recurrent_kernel_init=orthogonal()),
    **LINEAR_RNNS,
    "gtrxl": GatedTransformer,
}


def apply(module: nn.Module, params: PyTree, *args: object) -> PyTree:
    """Apply a module to its own parameters."""
    return module.apply({"params": params}, *args)


def init(module: nn.Module, key: Key, *args: PyTree) -> PyTree:
    """Return the parameters of a module, initialized on example inputs; {} for a module without any."""
    return module.init(key, *args).get("params", {})
