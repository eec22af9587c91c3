"""Q networks: values of every action, or their distributions; plain, dueling or noisy."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.functional.action_masks import action_mask, mask_illegal, split_mask, without_global_state
from purerl.networks.encoder import NetworkConfig, check_layers, make_torso, recurrent_encoder
from purerl.networks.modules import Module
from purerl.networks.torsos import ACTIVATIONS, apply, dense, init
from purerl.spaces import Space
from purerl.types import Array, Key, PyTree


class NoisyDense(nn.Module):
    r"""A dense layer whose weights are noisy: y = (w + sigma_w e_out e_in^T) x + b + sigma_b e_out.

    The noise is f(e) = sgn(e) sqrt|e| of normal draws, one per input and one per output, from the generator "noise";
    without that generator it is 0. All rows of a batch share it; a single row, as under `jax.vmap` over keys and rows,
    has its own, at the cost of one more product instead of a weight per row.

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
    hidden_size: int | None = None  # of a hidden layer before the outputs
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


class QNetwork(NamedTuple):
    """Q values as pure functions; a user's own may replace it."""

    init: Callable[[Key], PyTree]  # key -> params
    apply: Callable[..., Array]
    # (params, observation[..., *], noise: key or None) -> f32[..., num_actions] or [..., num_actions, num_atoms]


def q_network(
    space: Space,
    num_actions: int,
    config: NetworkConfig,
    num_atoms: int | None = None,
    dueling: bool = False,
    noisy: bool = False,
    network: Module | None = None,
) -> QNetwork:
    """Return a Q network for an observation space; it sees neither a mask of legal actions nor a global state.

    The last of `config.hidden_sizes` belongs to the head where that is dueling or noisy, to the torso otherwise. A
    `network` stands for the torso.
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
    whole = _TorsoAndHead(torso, head)

    def apply(params: PyTree, observation: PyTree, noise: Key | None = None) -> Array:
        rngs = {} if noise is None else {"noise": noise}
        q = whole.apply({"params": params}, split_mask(without_global_state(observation))[0], rngs=rngs)
        assert isinstance(q, jax.Array)
        return q

    return QNetwork(lambda key: whole.init(key, split_mask(without_global_state(space.zeros()))[0])["params"], apply)


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


class QuantileNetwork(NamedTuple):
    """Quantiles of the return at given levels, as pure functions; a user's own may replace it."""

    init: Callable[[Key], PyTree]  # key -> params
    at: Callable[..., Array]
    # (params, observation[..., *], tau f32[..., n], noise: key or None) -> f32[..., num_actions, n]


def quantile_network(
    space: Space,
    num_actions: int,
    config: NetworkConfig,
    embedding_size: int,
    dueling: bool = False,
    noisy: bool = False,
    network: Module | None = None,
) -> QuantileNetwork:
    """Return a network of quantiles for an observation space; as `q_network`, with a hidden layer in the head."""
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
    whole = QuantileTorsoAndHead(torso, head, embedding_size)

    def at(params: PyTree, observation: PyTree, tau: Array, noise: Key | None = None) -> Array:
        rngs = {} if noise is None else {"noise": noise}
        quantiles = whole.apply({"params": params}, split_mask(without_global_state(observation))[0], tau, rngs=rngs)
        assert isinstance(quantiles, jax.Array)
        return quantiles

    def initialize(key: Key) -> PyTree:
        return whole.init(key, split_mask(without_global_state(space.zeros()))[0], jnp.zeros(1))["params"]

    return QuantileNetwork(init=initialize, at=at)


class RecurrentQNetwork(NamedTuple):
    """A recurrent Q function, as pure functions. What is illegal has the lowest value there is."""

    init: Callable[[Key], PyTree]  # key -> params
    initial_carry: Callable[[int], PyTree]  # num_envs -> carry [B, ...]
    step: Callable[[PyTree, PyTree, PyTree], tuple[Array, PyTree]]
    # (params, carry[...], observation[...]) -> (q f32[..., n], carry[...])
    unroll: Callable[[PyTree, PyTree, PyTree, Array], tuple[Array, PyTree]]
    # (params, carry[B], observation[T, B], done[T, B]) ->
    #   (q f32[T, B, n], carry [T, B] after each step, before an ending clears it)


def recurrent_q_network(
    space: Space,
    num_actions: int,
    config: NetworkConfig,
    rnn: str,
    rnn_size: int,
    dueling: bool = True,
    network: Module | None = None,
) -> RecurrentQNetwork:
    """Return the Q function for an observation space: a torso or `network`, a recurrent layer, a head."""
    base = recurrent_encoder(space, config, rnn, rnn_size, network)
    head = QHead(
        num_actions,
        hidden_size=rnn_size if dueling else None,
        dueling=dueling,
        dtype=jnp.dtype(config.precision),
        initializer=config.initializer,
    )

    def initialize(key: Key) -> PyTree:
        key_body, key_head = jax.random.split(key)
        return {"body": base.init(key_body), "head": init(head, key_head, jnp.zeros(base.size))}

    def step(params: PyTree, carry: PyTree, observation: PyTree) -> tuple[Array, PyTree]:
        features, carry = base.step(params["body"], carry, observation)
        return mask_illegal(apply(head, params["head"], features), action_mask(observation)), carry

    def unroll(params: PyTree, carry: PyTree, observation: PyTree, done: Array) -> tuple[Array, PyTree]:
        features, after = base.unroll(params["body"], carry, observation, done)
        return mask_illegal(apply(head, params["head"], features), action_mask(observation)), after

    return RecurrentQNetwork(init=initialize, initial_carry=base.initial_carry, step=step, unroll=unroll)
