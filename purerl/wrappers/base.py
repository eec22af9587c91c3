"""The base of wrappers: an environment inside another, and the state of both."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np

from purerl import agent_groups
from purerl.errors import InputError
from purerl.fields import pytree, validate
from purerl.host_environment import HostSource
from purerl.spaces import Dict, Space, Stacked
from purerl.types import Environment, EnvironmentSpec, Key, PyTree, TimeStep


class Wrapped(NamedTuple):
    """The states of a wrapped environment and of its wrapper."""

    inner: PyTree
    outer: PyTree


@pytree
class Wrapper(Environment):
    """Changes nothing; the base of all wrappers."""

    keeps_state: ClassVar[bool] = False  # whether its states are `Wrapped` and no longer those of the wrapped one
    env: Any = dataclasses.field(kw_only=False)

    def __post_init__(self) -> None:
        """Reject objects that are not JAX environments, and settings out of their bounds.

        Raises:
          InputError: naming it.
        """
        name = type(self).__name__
        if isinstance(self.env, str):
            raise InputError(f"{name} needs an environment, not the text '{self.env}': purerl.make('{self.env}')")
        if isinstance(self.env, HostSource):
            raise InputError(f"{name} wraps environments in JAX, and {self.env.id} runs on the host")
        validate(self, name, only_static=True)

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start an episode of the wrapped environment."""
        return self.env.reset(key)

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step the wrapped environment."""
        return self.env.step(key, state, action)

    def render(self, state: PyTree) -> np.ndarray:
        """Draw the state of the wrapped environment: u8[height, width, 3]."""
        return self.env.render(self._inner(state))

    def render_episode(self, states: list[PyTree]) -> list[np.ndarray]:
        """Draw the states of the wrapped environment."""
        return self.env.render_episode([self._inner(state) for state in states])

    def render_text(self, state: PyTree) -> str:
        """Return the state of the wrapped environment as text."""
        return self.env.render_text(self._inner(state))

    def action_text(self, action: int) -> str:
        """Return the wrapped environment's name of a discrete action."""
        return self.env.action_text(action)

    def _inner(self, state: PyTree) -> PyTree:
        return state.inner if self.keeps_state else state

    @property
    def observation_space(self) -> Space:
        """The wrapped environment's observation space."""
        return self.env.observation_space

    @property
    def action_space(self) -> Space:
        """The wrapped environment's action space."""
        return self.env.action_space

    @property
    def unwrapped(self) -> Environment:
        """The environment inside all wrappers."""
        return self.env.unwrapped if isinstance(self.env, Wrapper) else self.env


def show(see: Callable[..., PyTree], env: Environment, observation: PyTree, *more: PyTree) -> PyTree:
    """Return an observation after a wrapper's change, for a single agent or for each agent in each group.

    Args:
      see: (spaces of one agent, its observation, its part of each of `more`) -> its new observation.
      env: the wrapped environment.
      observation: its observation; flags of agents and the global state do not change.
      *more: by group where there are groups, such as actions and rewards.
    """
    specs = agent_specs(env)
    if isinstance(specs, EnvironmentSpec):
        return see(specs, observation, *more)
    each = lambda group, spec: jax.vmap(partial(see, spec))(observation[group], *(part[group] for part in more))
    return dict(observation) | {group: each(group, spec) for group, spec in specs.items()}


def shown_space(change: Callable[[EnvironmentSpec], Space], env: Environment) -> Space:
    """Return the space of the result of `show`: `change` maps one agent's spaces to its new observation space."""
    specs = agent_specs(env)
    if isinstance(specs, EnvironmentSpec):
        return change(specs)
    seen: Any = env.observation_space
    sizes = agent_groups.sizes(env)
    return Dict(
        spaces=seen.spaces | {group: Stacked(space=change(spec), n=sizes[group]) for group, spec in specs.items()}
    )


def agent_specs(env: Environment) -> EnvironmentSpec | dict[str, EnvironmentSpec]:
    """Return the spaces of the single agent, or of one agent of each group."""
    seen: Any = env.observation_space
    actions: Any = env.action_space
    groups = agent_groups.sizes(env)
    if not groups:
        return EnvironmentSpec(seen, actions)
    return {group: EnvironmentSpec(seen.spaces[group].space, actions.spaces[group].space) for group in groups}
