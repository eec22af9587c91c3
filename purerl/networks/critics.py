"""Critics: Q values of an observation and a continuous action, several at once."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.functional.action_masks import without_global_state, without_mask
from purerl.networks.encoder import NetworkConfig, check_layers, encoder, encoder_of, hidden_layers
from purerl.networks.modules import Module, own_torso
from purerl.networks.torsos import apply, dense, init
from purerl.spaces import Box, Dict, Space
from purerl.types import Array, Key, PyTree


class CriticFunction(Protocol):
    """`Critics.apply`."""

    def __call__(self, params: PyTree, observation: PyTree, action: Array, /) -> Array:
        """Return f32[num, ...], or [num, ..., outputs], of observations [..., *] and actions in [-1, 1] f32[..., n]."""
        ...


class Critics(NamedTuple):
    """Several Q functions with separate parameters."""

    init: Callable[[Key], PyTree]  # key -> params
    apply: CriticFunction


class _FeaturesAndAction(nn.Module):
    """Dense layers on a module's features of the observation, concatenated with the action."""

    torso: nn.Module
    layers: nn.Module

    def __call__(self, joint: PyTree) -> Array:
        features = self.torso(joint["observation"])
        return self.layers(jnp.concatenate([joint["action"], features.astype(jnp.float32)], axis=-1))


def critics(
    space: Space,
    action_size: int,
    config: NetworkConfig,
    *,
    num: int,
    network: Module | None = None,
    outputs: int | None = None,
) -> Critics:
    """Return critics for an observation space; their input is the observation concatenated with the action.

    Args:
      space: the space of observations.
      action_size: numbers of an action.
      config: the settings of the layers.
      num: how many critics.
      network: a module whose features replace the observation, unless the critics see a global state.
      outputs: numbers of a critic on an axis of their own, such as quantiles; None: one, without an axis.
    """
    joint = Dict(spaces={"action": Box(low=-1.0, high=1.0, shape=(action_size,)), "observation": without_mask(space)})
    base, head = encoder(joint, config), dense(outputs or 1, 1.0, initializer=config.initializer)
    if network is not None and without_global_state(space) is space:
        check_layers(config.hidden_sizes, "a critic on the features of a network")
        layers = hidden_layers(config, config.hidden_sizes)
        joined = _FeaturesAndAction(torso=own_torso(space, network)[0], layers=layers)
        base = encoder_of(joint, joined, config.hidden_sizes[-1])

    def initialize(key: Key) -> PyTree:
        def one(key: Key) -> PyTree:
            key_body, key_head = jax.random.split(key)
            return {"body": base.init(key_body), "head": init(head, key_head, jnp.zeros(base.size))}

        return tuple(one(k) for k in jax.random.split(key, num))

    def value(params: PyTree, observation: PyTree, action: Array) -> Array:
        # One after the other rather than stacked: batched products are slow on XLA's CPU backend.
        def one(params: PyTree) -> Array:
            features, _ = base.step(params["body"], (), {"action": action, "observation": observation})
            values = apply(head, params["head"], features)
            return values[..., 0] if outputs is None else values

        return jnp.stack([one(part) for part in params])

    return Critics(init=initialize, apply=value)
