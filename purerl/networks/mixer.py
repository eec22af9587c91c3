"""Mixers: functions from the values of a team's agents to the value of the team."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from purerl.networks.torsos import apply, dense, init
from purerl.spaces import Space
from purerl.types import Array, Key, PyTree

SMALL = 0.01  # initial scale of the weights: larger ones saturate the ELU where values are low, and no agent learns


class MixValues(Protocol):
    """A function that mixes the values of a team's agents: `Mixer.apply`."""

    def __call__(self, params: PyTree, values: Array, observation: PyTree, /) -> Array:
        """Return the team's value f32[N] from its agents' values f32[N, n] and the team's observation [N, ...]."""
        ...


class Mixer(NamedTuple):
    """The value of a team from the values of its agents, as pure functions."""

    init: Callable[[Key], PyTree]  # key -> params
    apply: MixValues


def adding() -> Mixer:
    """Return the sum of the agents' values."""
    return Mixer(init=lambda key: {}, apply=lambda params, values, observation: jnp.sum(values, axis=-1))


def mixing(global_state: Space, num_agents: int, size: int, initializer: str = "orthogonal") -> Mixer:
    r"""Return QMIX's mixing network: Q_team = |W2(s)| elu(|W1(s)| (Q_1, .., Q_n) + b1(s)) + b2(s).

    Args:
      global_state: the space of s, the "global_state" of a team's observation.
      num_agents: n.
      size: units of the hidden layer.
      initializer: the initializer of the layers that make the weights.

    Source: Rashid et al. (2018), arXiv:1803.11485.
    """
    layer = partial(dense, initializer=initializer)
    layers = {
        "w1": layer(num_agents * size, SMALL),
        "b1": layer(size, SMALL),
        "w2": layer(size, SMALL),
        "b2": layer(size, 2**0.5),
        "b2_out": layer(1, 1.0),
    }

    def initialize(key: Key) -> PyTree:
        sizes = {name: size if name == "b2_out" else global_state.size for name in layers}
        keys = jax.random.split(key, len(layers))
        return {name: init(layers[name], k, jnp.zeros(sizes[name])) for name, k in zip(layers, keys, strict=True)}

    def mix(params: PyTree, values: Array, observation: PyTree) -> Array:
        state = observation["global_state"].reshape(values.shape[0], -1).astype(jnp.float32)
        layer = lambda name, x: apply(layers[name], params[name], x)
        w1 = jnp.abs(layer("w1", state)).reshape(-1, num_agents, size)
        hidden = jax.nn.elu(jnp.sum(values[..., None] * w1, axis=1) + layer("b1", state))
        b2 = layer("b2_out", jax.nn.relu(layer("b2", state)))[..., 0]
        return jnp.sum(hidden * jnp.abs(layer("w2", state)), axis=-1) + b2

    return Mixer(init=initialize, apply=mix)
