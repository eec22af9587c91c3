"""Wrappers of observations: frame stack, flatten, previous action and reward, masks, casts."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from purerl.errors import InputError, kind_of
from purerl.fields import pytree, static
from purerl.spaces import Box, Dict, Discrete, Space, flat, leaves
from purerl.types import Array, EnvironmentSpec, Key, PyTree, TimeStep
from purerl.wrappers.base import Wrapped, Wrapper, show, shown_space

_SIDES = ("low", "high")
EXTRA = ("action_mask", "global_state")  # what no wrapper changes or mixes into what an agent sees


@pytree
class FrameStack(Wrapper):
    """Stacks the last `num_frames` observations along their last axis, the newest last.

    f32[4] becomes f32[4 k], u8[H, W, C] becomes u8[H, W, C k]. Before an episode's k-th observation, copies of its
    first one replace the missing ones.
    """

    keeps_state: ClassVar[bool] = True
    num_frames: int = static(default=4, doc="number of stacked observations", at_least=1)

    def reset(self, key: Key) -> tuple[Wrapped, PyTree]:
        """Repeat the first observation."""
        state, observation = self.env.reset(key)
        repeat = lambda x: jnp.concatenate([jnp.atleast_1d(x)] * self.num_frames, axis=-1)

        def see(one: EnvironmentSpec, first: PyTree) -> PyTree:
            frame, extra = _split(first)
            return _join(jax.tree.map(repeat, frame), extra)

        shown = show(see, self.env, observation)
        return Wrapped(state, shown), shown

    def step(self, key: Key, state: Wrapped, action: PyTree) -> tuple[Wrapped, TimeStep]:
        """Drop the oldest observation and append the newest."""
        inner, step = self.env.step(key, state.inner, action)

        def shift(stack: Array, x: Array) -> Array:
            x = jnp.atleast_1d(x)
            return jnp.concatenate([stack[..., x.shape[-1] :], x], axis=-1)

        def see(one: EnvironmentSpec, newest: PyTree, before: PyTree) -> PyTree:
            (frame, extra), (stack, _) = _split(newest), _split(before)
            return _join(jax.tree.map(shift, stack, frame), extra)

        shown = show(see, self.env, step.observation, state.outer)
        return Wrapped(inner, shown), step._replace(observation=shown)

    @property
    def observation_space(self) -> Space:
        """The wrapped environment's space with its last axis `num_frames` times as long."""

        def stacked(space: Space) -> Space:
            if not isinstance(space, Box):
                raise InputError(f"FrameStack needs observations in a Box, not in {kind_of(space)}")
            shape = space.shape or (1,)
            tile = lambda bound: _tiled(bound, shape, self.num_frames)
            longer = (*shape[:-1], shape[-1] * self.num_frames)
            return Box(
                low=tile(space.low), high=tile(space.high), shape=longer, dtype=space.dtype, stack=self.num_frames
            )

        return shown_space(lambda one: _map_space(stacked, one.observation_space), self.env)


@pytree
class Flatten(Wrapper):
    """Flattens the observation into one vector, f32[n]: all parts concatenated, integers of a finite set as one-hot."""

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Flatten the first observation."""
        state, observation = self.env.reset(key)
        return state, show(_flattened, self.env, observation)

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Flatten the observation."""
        state, step = self.env.step(key, state, action)
        return state, step._replace(observation=show(_flattened, self.env, step.observation))

    @property
    def observation_space(self) -> Space:
        """A Box of one axis."""

        def row(one: EnvironmentSpec) -> Space:
            space, extra = _split_space(one.observation_space)
            low, high = (jnp.concatenate([_bound(part, side) for part in leaves(space)]) for side in _SIDES)
            return _join_space(Box(low=low, high=high, shape=low.shape, dtype=jnp.float32), extra)

        return shown_space(row, self.env)


@pytree
class PreviousActionReward(Wrapper):
    """Adds the previous action and reward to the observation, as meta-learning by a recurrent policy needs.

    The observation is a dict: "observation", "previous_action" (f32, one-hot where the action is discrete; zeros at the
    start) and "previous_reward" (f32[1]). `Flatten` makes one vector of it.

    Source: Wang et al. (2016), arXiv:1611.05763; Duan et al. (2016), arXiv:1611.02779.
    """

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start with zeros."""
        state, observation = self.env.reset(key)
        see = lambda one, first: _with_previous(first, jnp.zeros(_width(one.action_space)), jnp.float32(0))
        return state, show(see, self.env, observation)

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step, then add the action and its reward to the observation."""
        state, step = self.env.step(key, state, action)
        see = lambda one, seen, action, reward: _with_previous(seen, flat(one.action_space, action), reward)
        shown = show(see, self.env, step.observation, action, step.reward)
        return state, step._replace(observation=shown)

    @property
    def observation_space(self) -> Space:
        """A Dict of the three, and of the legal-action mask and the global state if there are any."""

        def shown(one: EnvironmentSpec) -> Space:
            rest, extra = _split_space(one.observation_space)
            spaces = {
                "observation": rest,
                "previous_action": Box(low=-jnp.inf, high=jnp.inf, shape=(_width(one.action_space),)),
                "previous_reward": Box(low=-jnp.inf, high=jnp.inf, shape=(1,)),
            }
            return _join_space(Dict(spaces=spaces), extra)

        return shown_space(shown, self.env)


@pytree
class ActionMask(Wrapper):
    """Adds a mask of the legal discrete actions: `legal(state) -> bool[n]`, a function of the wrapped state.

    For groups of agents it returns {group: bool[agents, n]}. The observation becomes a dict with "observation" and
    "action_mask"; an existing mask is narrowed.
    """

    legal: Callable[[PyTree], Array] = static(doc="(state) -> bool[n], the legal actions")

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Add the mask of the first state."""
        state, observation = self.env.reset(key)
        return state, self._show(state, observation)

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step and add the mask of the new state."""
        state, step = self.env.step(key, state, action)
        return state, step._replace(observation=self._show(state, step.observation))

    def _show(self, state: PyTree, observation: PyTree) -> PyTree:
        def see(one: EnvironmentSpec, seen: PyTree, legal: Array) -> PyTree:
            rest, extra = _split(seen)
            before = extra["action_mask"].astype(bool) if "action_mask" in extra else True
            return _join(rest, extra | {"action_mask": legal & before})

        return show(see, self.env, observation, self.legal(state))

    @property
    def observation_space(self) -> Space:
        """A Dict with "action_mask", bool[n]."""

        def masked(one: EnvironmentSpec) -> Space:
            if not isinstance(one.action_space, Discrete):
                raise InputError(f"ActionMask needs discrete actions, not {kind_of(one.action_space)}")
            rest, extra = _split_space(one.observation_space)
            mask = Box(low=0, high=1, shape=(one.action_space.n,), dtype=jnp.bool_)
            return _join_space(rest, extra | {"action_mask": mask})

        return shown_space(masked, self.env)


@pytree
class Cast(Wrapper):
    """Converts the arrays of observations that lie in a Box to another dtype."""

    dtype: Any = static(default=jnp.float32, doc="dtype of the observations")

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Cast the first observation."""
        state, observation = self.env.reset(key)
        return state, self._cast(observation)

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Cast the observation."""
        state, step = self.env.step(key, state, action)
        return state, step._replace(observation=self._cast(step.observation))

    def _cast(self, observation: PyTree) -> PyTree:
        def see(one: EnvironmentSpec, seen: PyTree) -> PyTree:
            rest, extra = _split(seen)
            space, _ = _split_space(one.observation_space)
            cast = [
                x.astype(self.dtype) if isinstance(part, Box) else x
                for part, x in zip(leaves(space), jax.tree.leaves(rest), strict=True)
            ]
            return _join(jax.tree.unflatten(jax.tree.structure(rest), cast), extra)

        return show(see, self.env, observation)

    @property
    def observation_space(self) -> Space:
        """The wrapped environment's space with every Box in `dtype`."""
        cast = lambda space: dataclasses.replace(space, dtype=self.dtype) if isinstance(space, Box) else space
        return shown_space(lambda one: _map_space(cast, one.observation_space), self.env)


def _flattened(one: EnvironmentSpec, seen: PyTree) -> PyTree:
    """Return an agent's observation as a vector."""
    rest, extra = _split(seen)
    return _join(flat(_split_space(one.observation_space)[0], rest), extra)


def _with_previous(seen: PyTree, action: Array, reward: Array) -> dict[str, PyTree]:
    """Return an agent's observation with its previous action, f32[n], and the reward of it, f32[]."""
    rest, extra = _split(seen)
    return _join({"observation": rest, "previous_action": action, "previous_reward": reward[None]}, extra)


def _width(space: Space) -> int:
    """Return the length of an element of a space after `flat`."""
    return sum(_bound(part, "low").size for part in leaves(space))


def _map_space(change: Callable[[Space], Space], space: Space) -> Space:
    """Change every leaf of a space except the legal-action mask and the global state."""
    if not isinstance(space, Dict):
        return change(space)
    rest, extra = _split_space(space)
    if isinstance(rest, Dict):
        rest = Dict(spaces={name: _map_space(change, part) for name, part in rest.spaces.items()})
    return _join_space(rest if isinstance(rest, Dict) else change(rest), extra)


def _bound(space: Space, side: str) -> Array:
    """Return a leaf space's lower or upper bound after `flat`."""
    if isinstance(space, Box):
        return jnp.broadcast_to(jnp.asarray(getattr(space, side)).astype(jnp.float32), space.shape).reshape(-1)
    size = space.n if isinstance(space, Discrete) else sum(getattr(space, "nvec", ()))
    return jnp.full(size, 0 if side == "low" else 1, jnp.float32)


def _tiled(bound: PyTree, shape: tuple[int, ...], times: int) -> PyTree:
    """Repeat a bound along the last axis, unless it is one number."""
    if math.prod(jnp.shape(bound)) == 1:
        return bound
    return jnp.concatenate([jnp.broadcast_to(jnp.asarray(bound), shape)] * times, axis=-1)


def _split(observation: PyTree) -> tuple[PyTree, dict[str, PyTree]]:
    """Return (the observation itself, its extra entries: a legal-action mask, a global state)."""
    if not isinstance(observation, Mapping) or not (extra := {n: observation[n] for n in EXTRA if n in observation}):
        return observation, {}
    rest = {name: part for name, part in observation.items() if name not in EXTRA}
    return rest["observation"] if set(rest) == {"observation"} else rest, extra


def _join(rest: PyTree, extra: Mapping[str, object]) -> PyTree:
    if not extra:
        return rest
    return {**(rest if isinstance(rest, Mapping) else {"observation": rest}), **extra}


def _split_space(space: Space) -> tuple[Space, dict[str, Space]]:
    if not isinstance(space, Dict):
        return space, {}
    rest, extra = _split(space.spaces)
    return (Dict(spaces=rest) if isinstance(rest, Mapping) else rest), extra


def _join_space(rest: Space, extra: Mapping[str, Space]) -> Space:
    return Dict(spaces=_join(rest.spaces if isinstance(rest, Dict) else rest, extra)) if extra else rest
