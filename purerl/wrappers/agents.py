"""Wrappers of environments of several agents: agent ids."""

import itertools
from collections.abc import Mapping

import jax.numpy as jnp

from purerl import agent_groups
from purerl.errors import InputError
from purerl.fields import pytree
from purerl.spaces import Box, Dict, Space
from purerl.types import Array, EnvironmentSpec, Key, PyTree, TimeStep
from purerl.wrappers.base import Wrapper, show, shown_space


@pytree
class AgentIds(Wrapper):
    """Adds an id to every agent's observation, so that agents of one policy can act differently.

    An agent's observation is a dict: "observation", or the entries of the wrapped observation if that is a dict, and
    "agent_id", f32[N], its number among the N agents of all groups, one-hot. Agents are numbered in the order of the
    groups' names.
    """

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Add the ids to the first observation."""
        state, observation = self.env.reset(key)
        return state, show(_with_id, self.env, observation, self._ids())

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step and add the ids."""
        state, step = self.env.step(key, state, action)
        return state, step._replace(observation=show(_with_id, self.env, step.observation, self._ids()))

    def _ids(self) -> dict[str, Array]:
        """Return the ids of every group, f32[n, N].

        Raises:
          InputError: if there are no groups.
        """
        sizes = agent_groups.sizes(self.env)
        if not sizes:
            raise InputError(f"AgentIds needs groups of agents; {type(self.env).__name__} has a single agent")
        cuts = list(itertools.accumulate(sizes.values()))
        return dict(zip(sizes, jnp.split(jnp.eye(cuts[-1]), cuts[:-1]), strict=True))

    @property
    def observation_space(self) -> Space:
        """The wrapped environment's space with an "agent_id" for every agent."""
        total = sum(ids.shape[0] for ids in self._ids().values())

        def numbered(one: EnvironmentSpec) -> Space:
            space = one.observation_space
            known = space.spaces if isinstance(space, Dict) else space
            return Dict(spaces=_with_id(one, known, Box(low=0, high=1, shape=(total,))))

        return shown_space(numbered, self.env)


def _with_id(one: EnvironmentSpec, seen: PyTree, agent_id: Array | Space) -> dict[str, PyTree]:
    """Return an agent's observation, or its space, together with an id."""
    return (dict(seen) if isinstance(seen, Mapping) else {"observation": seen}) | {"agent_id": agent_id}
