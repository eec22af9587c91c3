"""Critics: Q values of an observation and a continuous action, several at once."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.functional.action_masks import without_mask
from purerl.networks.encoder import NetworkConfig, encoder
from purerl.networks.torsos import apply, dense, init
from purerl.spaces import Box, Dict, Space
from purerl.types import Array, Key, PyTree


class Critics(NamedTuple):
    """Several Q functions with separate parameters."""

    init: Callable[[Key], PyTree]  # key -> params
    apply: Callable[[PyTree, PyTree, Array], Array]
    # (params, observation[..., *], action in [-1, 1] f32[..., n]) -> f32[num, ...]


def critics(space: Space, action_size: int, config: NetworkConfig, num: int) -> Critics:
    """Return critics for an observation space; observation and action enter the network side by side."""
    joint = Dict(spaces={"action": Box(low=-1.0, high=1.0, shape=(action_size,)), "observation": without_mask(space)})
    base, head = encoder(joint, config), dense(1, 1.0, initializer=config.initializer)

    def initialize(key: Key) -> PyTree:
        def one(key: Key) -> PyTree:
            key_body, key_head = jax.random.split(key)
            return {"body": base.init(key_body), "head": init(head, key_head, jnp.zeros(base.size))}

        return tuple(one(k) for k in jax.random.split(key, num))

    def value(params: PyTree, observation: PyTree, action: Array) -> Array:
        # One after the other rather than stacked: batched products are slow on XLA's CPU backend.
        def one(params: PyTree) -> Array:
            features, _ = base.step(params["body"], (), {"action": action, "observation": observation})
            return apply(head, params["head"], features)[..., 0]

        return jnp.stack([one(part) for part in params])

    return Critics(initialize, value)
