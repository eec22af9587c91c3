"""Random play, recorded."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.agent_groups import draw, mean_reward
from purerl.prng import is_key
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Stacked
from purerl.types import Array, Environment, Key, PyTree
from purerl.xla.trees import where


class RandomPlay(NamedTuple):
    """Steps of random play, axes [B, T]; an episode starts in the row where `length` is 1."""

    reset: PyTree  # (state, observation) of a reset in this row
    reset_key: Key
    step_key: Key
    state: PyTree  # acted in
    observation: PyTree  # acted on
    action: PyTree
    result: PyTree  # (state, TimeStep) after the step
    inside: dict[str, Array]  # per part of the observation space: whether the successor is inside
    action_inside: Array  # bool
    sampled: Array  # bool, a sample of the observation space is inside it
    length: Array  # i32, of the episode, this step included
    episode_return: Array  # f32


def play_one(env: Environment, key: Key, invalid: Array, num_steps: int) -> RandomPlay:
    """Play random legal actions, or with `invalid` ones outside the action space; reset after an episode ends."""
    space = env.observation_space

    def step(carry: tuple, key: Key):
        state, observation, length, total = carry
        key_reset, key_step, key_action, key_sample = jax.random.split(key, 4)
        reset = env.reset(key_reset)
        state, observation = where(length == 0, reset, (state, observation))
        action = draw(env.action_space, key_action, observation)
        action_inside = env.action_space.contains(action)
        wrong = _outside(env.action_space, action)
        action = jax.tree.map(lambda x, y: jnp.where(invalid, x, y), wrong, action)
        after, timestep = env.step(key_step, state, action)
        inside = {path: part.contains(value) for path, part, value in parts(space, timestep.observation)}
        inside_first = {path: part.contains(value) for path, part, value in parts(space, observation)}
        inside = {path: inside[path] & inside_first[path] for path in inside}
        sampled = space.contains(space.sample(key_sample))
        length, total = length + 1, total + mean_reward(timestep.reward)
        row = RandomPlay(
            reset=reset,
            reset_key=key_reset,
            step_key=key_step,
            state=state,
            observation=observation,
            action=action,
            result=(after, timestep),
            inside=inside,
            action_inside=action_inside,
            sampled=sampled,
            length=length,
            episode_return=total,
        )
        length, total = jnp.where(timestep.done, 0, length), jnp.where(timestep.done, 0.0, total)
        return (after, timestep.observation, length, total), row

    nothing = jax.tree.map(lambda x: _zeros(x, key), jax.eval_shape(env.reset, key))
    _, record = jax.lax.scan(step, (*nothing, jnp.int32(0), jnp.float32(0)), jax.random.split(key, num_steps))
    return record


def _zeros(struct: jax.ShapeDtypeStruct, key: Key) -> Array:
    return jnp.broadcast_to(key, struct.shape) if is_key(struct) else jnp.zeros(struct.shape, struct.dtype)


def _outside(space: Space, action: PyTree) -> PyTree:
    match space:
        case Dict():
            return {name: _outside(space.spaces[name], part) for name, part in action.items()}
        case Stacked():
            return _outside(space.space, action)
        case Discrete(n=n):
            return action + n
        case MultiDiscrete(nvec=nvec):
            return action + jnp.asarray(nvec, jnp.int32)
        case Box() if jnp.issubdtype(space.dtype, jnp.floating):
            return jnp.asarray(10.0, space.dtype) * (action + 1)
    return action


def parts(space: Space, value: PyTree, path: str = "") -> list[tuple[str, Space, PyTree]]:
    """Return (path, space, value) of every part of a dict, or of the whole if it is not a dict."""
    if isinstance(space, Stacked) and isinstance(space.space, Dict):
        space = Dict(spaces={name: Stacked(space=part, n=space.n) for name, part in space.space.spaces.items()})
    if isinstance(space, Dict):
        return [
            part
            for name in sorted(space.spaces)
            for part in parts(space.spaces[name], value[name], f"{path}['{name}']")
        ]
    return [(path, space, value)]
