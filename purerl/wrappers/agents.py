"""Wrappers of environments of several agents: agent ids."""

import itertools

import jax.numpy as jnp

from purerl import agent_groups
from purerl.errors import InputError
from purerl.fields import pytree
from purerl.spaces import Box, Dict, Space, Stacked
from purerl.types import Array, Key, PyTree, TimeStep
from purerl.wrappers.base import Wrapper


@pytree
class AgentIds(Wrapper):
    """Shows every agent which one it is, so that agents of one policy may act differently.

    An agent's observation is a dict: "observation", or what the wrapped one's dict holds, and "agent_id", f32[N], the
    one-hot of its number among the N agents of all groups; agents count through groups by their names.
    """

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Show the ids beside the first observation."""
        state, observation = self.env.reset(key)
        return state, self._show(observation)

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step and show the ids."""
        state, step = self.env.step(key, state, action)
        return state, step._replace(observation=self._show(step.observation))

    def _show(self, observation: PyTree) -> PyTree:
        return observation | {group: _beside(observation[group], ids) for group, ids in self._ids().items()}

    def _ids(self) -> dict[str, Array]:
        """Return f32[n, N] of every group.

        Raises:
          InputError: if there are no groups.
        """
        sizes = agent_groups.sizes(self.env)
        if not sizes:
            raise InputError(f"AgentIds takes groups of agents; {type(self.env).__name__} is of a single agent")
        cuts = list(itertools.accumulate(sizes.values()))
        return dict(zip(sizes, jnp.split(jnp.eye(cuts[-1]), cuts[:-1]), strict=True))

    @property
    def observation_space(self) -> Dict:
        """The wrapped one with an "agent_id" for every agent."""

        def numbered(space: Stacked, total: int) -> Stacked:
            known = space.space.spaces if isinstance(space.space, Dict) else space.space
            return Stacked(space=Dict(spaces=_beside(known, Box(low=0, high=1, shape=(total,)))), n=space.n)

        spaces = self.env.observation_space.spaces
        return Dict(
            spaces=spaces | {group: numbered(spaces[group], ids.shape[1]) for group, ids in self._ids().items()}
        )


def _beside(observation: PyTree, agent_id: Array | Space) -> dict[str, PyTree]:
    """Return an observation, or its space, and an id beside it."""
    return (observation if isinstance(observation, dict) else {"observation": observation}) | {"agent_id": agent_id}
