"""The base of wrappers: an environment inside another, and the state of both."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from purerl.fields import pytree
from purerl.spaces import Space
from purerl.types import Environment, Key, PyTree, TimeStep


class Wrapped(NamedTuple):
    """The state of a wrapped environment, and that of its wrapper."""

    inner: PyTree
    outer: PyTree


@pytree
class Wrapper(Environment):
    """Changes nothing; the base of all wrappers."""

    env: Any = dataclasses.field(kw_only=False)

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start an episode of the wrapped environment."""
        return self.env.reset(key)

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step the wrapped environment."""
        return self.env.step(key, state, action)

    def render(self, state: PyTree) -> np.ndarray:
        """Draw the state of the environment inside all wrappers: u8[height, width, 3]."""
        return self.unwrapped.render(_innermost(state))

    def render_episode(self, states: list[PyTree]) -> list[np.ndarray]:
        """Draw the states of the environment inside all wrappers."""
        return self.unwrapped.render_episode([_innermost(state) for state in states])

    def render_text(self, state: PyTree) -> str:
        """Write the state of the environment inside all wrappers."""
        return self.unwrapped.render_text(_innermost(state))

    @property
    def observation_space(self) -> Space:
        """That of the wrapped environment."""
        return self.env.observation_space

    @property
    def action_space(self) -> Space:
        """That of the wrapped environment."""
        return self.env.action_space

    @property
    def unwrapped(self) -> Environment:
        """The environment inside all wrappers."""
        return self.env.unwrapped if isinstance(self.env, Wrapper) else self.env


def _innermost(state: PyTree) -> PyTree:
    while isinstance(state, Wrapped):
        state = state.inner
    return state
