"""Groups of agents: their sizes and spaces, mean rewards, and random actions."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError, unknown
from purerl.spaces import Dict, Discrete, MultiDiscrete, Space, Stacked
from purerl.types import Array, Environment, EnvironmentSpec, Key, PyTree

FLAGS = ("active", "turn")  # in an observation, {group: bool[n]}: who is in the game, and whose action counts
RESERVED = (*FLAGS, "global_state")  # names in an observation that are not groups


def sizes(env: Environment | EnvironmentSpec) -> dict[str, int]:
    """Return the number of agents of every group by its name; {} for a single agent.

    Raises:
      InputError: if only some of the actions are those of groups.
    """
    space = env.action_space
    if not isinstance(space, Dict) or not any(isinstance(part, Stacked) for part in space.spaces.values()):
        return {}
    for name, part in space.spaces.items():
        if not isinstance(part, Stacked):
            raise InputError(
                f"{type(env).__name__}.action_space['{name}'] is not a Stacked space, but those of other groups are"
            )
    return {name: part.n for name, part in sorted(space.spaces.items())}


def check(name: str, env: Environment | EnvironmentSpec) -> None:
    """Check that the spaces of a multi-agent environment agree with one another.

    Raises:
      InputError: naming the group or the part of the observation that is wrong.
    """
    agents = sizes(env)
    if not agents or not isinstance(env.observation_space, Dict):
        raise InputError(f"{name} has no groups of agents: its spaces must be Dicts with a Stacked space per group")
    observed = env.observation_space.spaces
    for part in observed:
        if part not in (*agents, *RESERVED):
            raise unknown(f"part of {name}.observation_space", part, [*agents, *RESERVED])
    for group, n in agents.items():
        if not isinstance(observed.get(group), Stacked) or observed[group].n != n:
            raise InputError(
                f"{name}.observation_space['{group}'] must be a Stacked space of {n} agents, like the action space"
            )
    for flag in FLAGS:
        for group, leaf in (observed[flag].struct if flag in observed else {}).items():
            if group not in agents or (leaf.shape, leaf.dtype) != ((agents[group],), jnp.bool_):
                wanted = f"bool[{agents[group]}]" if group in agents else "of a group"
                raise InputError(f"{name}.observation_space['{flag}']['{group}'] must be {wanted}")


def mean_reward(reward: PyTree) -> Array:
    """Return f32[B]: a single agent's reward, or the mean over all agents of {group: f32[B, n]}."""
    if not isinstance(reward, Mapping):
        return reward
    total = sum((jnp.sum(part, axis=-1) for part in reward.values()), jnp.float32(0))
    return total / sum(part.shape[-1] for part in reward.values())


def group_rewards(reward: PyTree) -> dict[str, Array]:
    """Return {group: f32[B]}, the mean over its agents; {} for a single agent."""
    return {name: jnp.mean(part, axis=-1) for name, part in reward.items()} if isinstance(reward, Mapping) else {}


def draw(space: Space, key: Key, observation: PyTree) -> PyTree:
    """Sample an action uniformly; if the observation (or a group's) has a mask, among the legal actions."""
    if isinstance(space, Dict):
        keys = jax.random.split(key, len(space.spaces))
        parts = [(name, space.spaces[name], key) for name, key in zip(sorted(space.spaces), keys, strict=True)]
        of = lambda name, part: observation[name] if isinstance(part, Stacked) else None  # a single agent's has none
        return {name: draw(part, key, of(name, part)) for name, part, key in parts}
    if isinstance(space, Stacked):
        keys = jax.random.split(key, space.n)
        return jax.vmap(lambda key, one: draw(space.space, key, one))(keys, observation)
    if isinstance(observation, Mapping) and "action_mask" in observation and isinstance(space, Discrete):
        logits = jnp.where(observation["action_mask"], 0.0, -jnp.inf)
        return jax.random.categorical(key, logits).astype(jnp.int32)
    if isinstance(observation, Mapping) and "action_mask" in observation and isinstance(space, MultiDiscrete):
        masks = jnp.split(observation["action_mask"], np.cumsum(space.nvec)[:-1].tolist(), axis=-1)
        parts = zip(jax.random.split(key, len(masks)), masks, strict=True)
        drawn = [jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf)) for key, mask in parts]
        return jnp.stack(drawn, axis=-1).astype(jnp.int32)
    return space.sample(key)
