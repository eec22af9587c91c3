"""Q networks: values of every action, or their distributions; plain, dueling or noisy."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.errors import InputError
from purerl.functional.action_masks import split_mask, without_global_state
from purerl.networks.encoder import NetworkConfig, check_layers, make_torso
from purerl.networks.modules import Module
from purerl.networks.torsos import ACTIVATIONS, dense
from purerl.spaces import Discrete, Space
from purerl.types import Array, EnvironmentSpec, Key, PyTree


class NoisyDense(nn.Module):
    r"""A dense layer whose weights are noisy: y = (w + sigma_w e_out e_in^T) x + b + sigma_b e_out.

    The noise is f(e) = sgn(e) sqrt|e| with e standard normal, one per input and one per output, from the generator
    "noise"; without that generator it is 0. All rows of a batch share it; a single row, as under `jax.vmap` over keys
    and rows, has its own, at the cost of one more product instead of a weight per row.

    Source: Fortunato et al. (2018), arXiv:1706.10295, factorized noise.
    """

    features: int
    sigma: float = 0.5
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Map f32[..., n] -> [..., features]."""
        size = x.shape[-1]
        bound = 1.0 / math.sqrt(size)
        spread = nn.initializers.constant(self.sigma * bound)

        def start(key: Key, shape: tuple[int, ...]) -> Array:
            return jax.random.uniform(key, shape, jnp.float32, -bound, bound)

        weight, bias = self.param("kernel", start, (size, self.features)), self.param("bias", start, (self.features,))
        weight_spread = self.param("kernel_spread", spread, (size, self.features))
        bias_spread = self.param("bias_spread", spread, (self.features,))
        if self.has_rng("noise"):
            normal = jax.random.normal(self.make_rng("noise"), (size + self.features,))
            noise = jnp.sign(normal) * jnp.sqrt(jnp.abs(normal))
            bias = bias + bias_spread * noise[size:]
            if x.ndim == 1:
                bias = bias + ((x * noise[:size]) @ weight_spread) * noise[size:]
            else:
                weight = weight + weight_spread * noise[:size, None] * noise[size:]
        return x.astype(self.dtype) @ weight.astype(self.dtype) + bias.astype(self.dtype)


class QHead(nn.Module):
    r"""Features to Q values, f32[..., n] -> f32[..., num_actions], or [..., num_actions, num_atoms].

    Dueling: Q = V + A - mean A, from two streams with a hidden layer each (Wang et al., 2016, arXiv:1511.06581).
    """

    num_actions: int
    num_atoms: int | None = None
    hidden_size: int | None = None  # units of a hidden layer before the outputs
    dueling: bool = False
    noisy: bool = False
    activation: str = "relu"
    dtype: Any = jnp.float32
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Apply one stream, or two."""
        atoms = self.num_atoms or 1
        q = self._stream(x, self.num_actions * atoms)
        q = q.reshape(*q.shape[:-1], self.num_actions, atoms)
        if self.dueling:
            value = self._stream(x, atoms)[..., None, :]
            q = value + q - jnp.mean(q, axis=-2, keepdims=True)
        return q if self.num_atoms else q[..., 0]

    def _stream(self, x: Array, num_outputs: int) -> Array:
        if self.hidden_size is not None:
            x = ACTIVATIONS[self.activation](self._dense(self.hidden_size, 2**0.5)(x))
        return self._dense(num_outputs, 1.0)(x).astype(jnp.float32)

    def _dense(self, features: int, scale: float) -> nn.Module:
        if self.noisy:
            return NoisyDense(features, dtype=self.dtype)
        return dense(features, scale, self.dtype, self.initializer)


class _TorsoAndHead(nn.Module):
    torso: nn.Module
    head: nn.Module

    def __call__(self, observation: PyTree) -> Array:
        return self.head(self.torso(observation))


def num_actions(spec: EnvironmentSpec, what: str) -> int:
    """Return the number of discrete actions; `what` names the algorithm in the error.

    Raises:
      InputError: if the actions are not discrete.
    """
    if not isinstance(spec.action_space, Discrete):
        raise InputError(f"{what}: needs discrete actions, one of n; this environment's are {spec.action_space}")
    return spec.action_space.n


class QFunction(Protocol):
    """`QNetwork.apply`."""

    def __call__(self, params: PyTree, observation: PyTree, noise: Key | None = None, /) -> Array:
        """Return Q values f32[..., num_actions], or [..., num_actions, num_atoms], for observations [..., *].

        `noise` is a key for noisy layers; None: without noise.
        """
        ...


class QNetwork(NamedTuple):
    """A Q network as pure functions; a user's own can replace it."""

    init: Callable[[Key], PyTree]  # key -> params
    apply: QFunction


def q_network(
    space: Space,
    num_actions: int,
    config: NetworkConfig,
    *,
    num_atoms: int | None = None,
    dueling: bool = False,
    noisy: bool = False,
    network: Module | None = None,
) -> QNetwork:
    """Return a Q network for an observation space; it ignores action masks and global states.

    The last of `config.hidden_sizes` is in the head if that is dueling or noisy, else in the torso.

    Args:
      space: the space of observations.
      num_actions: n.
      config: the settings of the layers.
      num_atoms: outputs per action; None: one, without an axis.
      dueling, noisy: the kind of head.
      network: a module that replaces the torso.
    """
    in_head = dueling or noisy
    if in_head:
        check_layers(config.hidden_sizes, "a head that is dueling or noisy")
    sizes = config.hidden_sizes
    torso, _ = make_torso(without_global_state(space), config, sizes[:-1] if in_head else sizes, network)
    head = QHead(
        num_actions=num_actions,
        num_atoms=num_atoms,
        hidden_size=sizes[-1] if in_head else None,
        dueling=dueling,
        noisy=noisy,
        activation=config.activation,
        dtype=jnp.dtype(config.precision),
        initializer=config.initializer,
    )
    whole = _TorsoAndHead(torso=torso, head=head)

    def initialize(key: Key) -> PyTree:
        return whole.init(key, split_mask(without_global_state(space.zeros()))[0])["params"]

    def apply(params: PyTree, observation: PyTree, noise: Key | None = None) -> Array:
        rngs = {} if noise is None else {"noise": noise}
        q = whole.apply({"params": params}, split_mask(without_global_state(observation))[0], rngs=rngs)
        assert isinstance(q, jax.Array)
        return q

    return QNetwork(init=initialize, apply=apply)


def noisy_apply(network: QNetwork, params: PyTree, observation: PyTree, key: Key | None) -> Array:
    """Return a network's outputs for [B] observations, each with its own noise; without noise if the key is None.

    Environments in the same state then explore differently.
    """
    if key is None:
        return network.apply(params, observation, None)
    keys = jax.random.split(key, jax.tree.leaves(observation)[0].shape[0])
    return jax.vmap(network.apply, (None, 0, 0))(params, observation, keys)


class QuantileTorsoAndHead(nn.Module):
    r"""Quantiles of the return at any levels: the head's outputs for features times an embedding of the level.

        theta_tau(s, a) = head(psi(s) * relu(W cos(pi i tau) + b))_a,  i = 0 .. embedding_size - 1

    Source: Dabney et al. (2018), arXiv:1806.06923.
    """

    torso: nn.Module
    head: QHead
    embedding_size: int

    @nn.compact
    def __call__(self, observation: PyTree, tau: Array) -> Array:
        """Map observations [..., *] and levels f32[..., n] -> f32[..., num_actions, n]."""
        features = self.torso(observation)
        waves = jnp.cos(jnp.pi * jnp.arange(self.embedding_size, dtype=jnp.float32) * tau[..., None])
        embed = dense(features.shape[-1], 2**0.5, self.head.dtype, self.head.initializer)
        quantiles = self.head(features[..., None, :] * nn.relu(embed(waves)))
        return jnp.swapaxes(quantiles, -1, -2)


class QuantileFunction(Protocol):
    """`QuantileNetwork.at`."""

    def __call__(self, params: PyTree, observation: PyTree, tau: Array, noise: Key | None = None, /) -> Array:
        """Return quantiles f32[..., num_actions, n] for observations [..., *] at levels tau f32[..., n]."""
        ...


class QuantileNetwork(NamedTuple):
    """Quantiles of the return at given levels, as pure functions; a user's own can replace it."""

    init: Callable[[Key], PyTree]  # key -> params
    at: QuantileFunction


def quantile_network(
    space: Space,
    num_actions: int,
    config: NetworkConfig,
    *,
    embedding_size: int,
    dueling: bool = False,
    noisy: bool = False,
    network: Module | None = None,
) -> QuantileNetwork:
    """Return a quantile network for an observation space: like `q_network`, with a hidden layer in the head."""
    torso, _ = make_torso(without_global_state(space), config, config.hidden_sizes[:-1], network)
    head = QHead(
        num_actions=num_actions,
        hidden_size=config.hidden_sizes[-1],
        dueling=dueling,
        noisy=noisy,
        activation=config.activation,
        dtype=jnp.dtype(config.precision),
        initializer=config.initializer,
    )
    whole = QuantileTorsoAndHead(torso=torso, head=head, embedding_size=embedding_size)

    def at(params: PyTree, observation: PyTree, tau: Array, noise: Key | None = None) -> Array:
        rngs = {} if noise is None else {"noise": noise}
        quantiles = whole.apply({"params": params}, split_mask(without_global_state(observation))[0], tau, rngs=rngs)
        assert isinstance(quantiles, jax.Array)
        return quantiles

    def initialize(key: Key) -> PyTree:
        return whole.init(key, split_mask(without_global_state(space.zeros()))[0], jnp.zeros(1))["params"]

    return QuantileNetwork(init=initialize, at=at)
