"""Parts that SAC, TD3, MPO and their kin share: settings, first actions, and actions in units of their box."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.algo_parts.off_policy import OffPolicyAgent, OffPolicyConfig
from purerl.errors import InputError
from purerl.functional.action_masks import action_mask
from purerl.optim.schedules import updates_of
from purerl.spaces import Box, Space
from purerl.types import Array, Key, PyTree, number, pytree, static


@pytree
class ActorCriticReplayConfig(OffPolicyConfig):
    """Settings of an algorithm with a policy, critics and a replay."""

    num_envs: int = static(default=1, doc="environments stepped in parallel", at_least=1)
    hidden_sizes: tuple[int, ...] = static(default=(256, 256), doc="units of the hidden layers", at_least=1)
    learning_rate: float = number(default=3e-4, doc="Adam's step size, of all parts", above=0)
    batch_size: int = static(default=256, doc="transitions per gradient step", at_least=1)
    replay_capacity: int = static(default=100_000, doc="steps held, all environments together", at_least=1)
    learning_starts: int = static(default=1_000, doc="steps, of random actions, before the first gradient", at_least=1)
    tau: float = number(default=0.005, doc="the targets' step towards the networks", above=0, at_most=1)
    normalize_observation: bool = static(default=False, doc="standardize observations by running statistics")
    reward_scale: float = number(default=1.0, doc="factor of the rewards that are learned from", above=0)


class UnitBox(NamedTuple):
    """The maps between a box of actions and [-1, 1]."""

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
    if space.is_unbounded:
        raise InputError(f"{what}: the bounds of the actions must be finite; they are {space.low} and {space.high}")
    low, high = jnp.asarray(space.low, jnp.float32), jnp.asarray(space.high, jnp.float32)
    return UnitBox(
        size=space.shape[0],
        to_unit=lambda action: (action - low) * 2.0 / (high - low) - 1.0,
        from_unit=lambda unit: space.clip(low + 0.5 * (unit + 1.0) * (high - low)),
    )


def random_at_first(
    space: Space, config: OffPolicyConfig, agent: OffPolicyAgent, key: Key, observation: PyTree, action: Any
) -> Any:
    """Return actions drawn from the space until learning starts, then `action`, [B, ...].

    Where some actions are illegal, `action` stands from the beginning.
    """
    keys = jax.random.split(jax.random.fold_in(key, 1), jax.tree.leaves(observation)[0].shape[0])
    random = jax.vmap(space.sample)(keys)
    started = (agent.num_updates >= updates_of(config, config.learning_starts)) | (action_mask(observation) is not None)
    return jnp.where(started, action, random)
