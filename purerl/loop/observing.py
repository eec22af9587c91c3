"""Observations as functions of the state: what an environment may offer, so that a rollout can hold states instead."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from purerl.errors import InputError
from purerl.types import Array, Environment, PyTree


@runtime_checkable
class Rebuilds(Protocol):
    """An environment whose observation of a state takes longer than a choice between two: `rebuild`, not `observe`."""

    def rebuild(self, state: PyTree) -> PyTree:
        """Return the observation of a state, the one that `reset` and `step` return."""
        ...


@runtime_checkable
class RebuildsAgents(Protocol):
    """An environment of several agents that observes for one agent in less work than for all."""

    def rebuild_agent(self, state: PyTree, group: str, index: Array) -> PyTree:
        """Return the observation of the agent i32[] of a group: `rebuild(state)[group][index]`."""
        ...


def follows_from_state(env: Environment) -> bool:
    """Return whether an environment's observation is a function of its state."""
    return isinstance(env, Rebuilds) or type(env).observe is not Environment.observe


def rebuilder(env: Environment) -> Callable[[PyTree], PyTree]:
    """Return the function from a state of an environment to its observation.

    Raises:
      InputError: if the environment has none.
    """
    if isinstance(env, Rebuilds):
        return env.rebuild
    if not follows_from_state(env):
        raise InputError(
            f"rebuild_observations: {type(env).__name__} does not say how an observation follows from a state: it has "
            "no method observe"
        )
    return env.observe
