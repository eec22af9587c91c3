"""Critics: Q values of an observation and a continuous action, several at once."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from purerl.algo_parts.off_policy import OffPolicyConfig
from purerl.errors import InputError
from purerl.networks.encoder import NetworkConfig, body
from purerl.networks.torsos import apply, dense, init, without_mask
from purerl.spaces import Box, Dict, Space
from purerl.types import Array, Key, PyTree, number, pytree, static


@pytree
class CriticsConfig(OffPolicyConfig):
    """What the configs of algorithms with critics of a policy share."""

    num_envs: int = static(default=1, doc="environments stepped in parallel", at_least=1)
    hidden_sizes: tuple[int, ...] = static(default=(256, 256), doc="units of the hidden layers", at_least=1)
    learning_rate: float = number(default=3e-4, doc="Adam's step size, of all parts", above=0)
    batch_size: int = static(default=256, doc="transitions per gradient step", at_least=1)
    replay_capacity: int = static(default=100_000, doc="steps held, all environments together", at_least=1)
    learning_starts: int = static(default=1_000, doc="steps, of random actions, before the first gradient", at_least=1)
    tau: float = number(default=0.005, doc="the targets' step towards the networks", above=0, at_most=1)


class UnitBox(NamedTuple):
    """A box of actions and how it maps to [-1, 1]."""

    size: int
    to_unit: Callable[[Array], Array]  # an action of the box -> [-1, 1]
    from_unit: Callable[[Array], Array]  # [-1, 1] -> an action of the box, never outside


def unit_box(space: Space, what: str) -> UnitBox:
    """Return the maps between a box of actions and [-1, 1].

    Raises:
      InputError: if the actions are not a box of floats with one axis and finite bounds.
    """
    if not isinstance(space, Box) or len(space.shape) != 1 or not jnp.issubdtype(space.dtype, jnp.floating):
        raise InputError(f"{what}: needs continuous actions, a Box with one axis; this environment's are {space}")
    bounds = (space.low, space.high)
    if not any(isinstance(bound, Tracer) for bound in bounds) and not np.all(np.isfinite(np.asarray(bounds))):
        raise InputError(f"{what}: the bounds of the actions must be finite; they are {space.low} and {space.high}")
    low, high = jnp.asarray(space.low, jnp.float32), jnp.asarray(space.high, jnp.float32)
    return UnitBox(
        space.shape[0],
        lambda action: (action - low) * 2.0 / (high - low) - 1.0,
        lambda unit: space.clip(low + 0.5 * (unit + 1.0) * (high - low)),
    )


class Critics(NamedTuple):
    """`num` Q functions with parameters of their own."""

    init: Callable[[Key], PyTree]  # key -> params
    apply: Callable[[PyTree, PyTree, Array], Array]
    # (params, observation[..., *], action in [-1, 1] f32[..., n]) -> f32[num, ...]


def critics(space: Space, action_size: int, config: NetworkConfig, num: int) -> Critics:
    """Return critics for an observation space; observation and action enter the network side by side."""
    joint = Dict(spaces={"action": Box(low=-1.0, high=1.0, shape=(action_size,)), "observation": without_mask(space)})
    base, head = body(joint, config), dense(1, 1.0, initializer=config.initializer)

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
