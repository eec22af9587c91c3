"""The policy of groups of agents: the agents of all environments become one batch, and their steps one rollout.

n agents in each of B environments are B x n environments of one agent. A joint policy's agents stay together: a sample
is a team, [B, n, ...].
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.extensions.groups.turn_based import TurnCarry
from purerl.functional import masked
from purerl.spaces import Space
from purerl.types import Algorithm, Array, Key, PyTree, Rollout
from purerl.xla.trees import where


class GroupPolicy(NamedTuple):
    """A policy's algorithm, bound to the environment's spaces, and the shapes of its agents."""

    algorithm: Algorithm
    observation_space: Space
    groups: tuple[str, ...]
    sizes: tuple[int, ...]  # agents of each group
    central: bool  # whether its critic sees the global state
    joint: bool  # whether its algorithm takes all agents of an environment as one sample
    in_turns: bool  # whether its agents take turns
    frozen: bool
    agent: PyTree

    @property
    def num_agents(self) -> int:
        """The number of agents in each environment."""
        return sum(self.sizes)

    def batch(self, num_envs: int) -> int:
        """Return the batch size of the policy's algorithm in one step of this many environments."""
        return num_envs if self.joint else num_envs * self.num_agents

    def flatten(self, tree: PyTree, axis: int) -> PyTree:
        """Reshape [.., B, n, ..] to [.., B x n, ..], with B along `axis`; arrays of a joint policy do not change."""
        if self.joint:
            return tree
        return jax.tree.map(lambda x: jax.lax.collapse(x, axis, axis + 2), tree)

    def unflatten(self, tree: PyTree) -> PyTree:
        """Undo `flatten` with axis 0: [B x n, ..] to [B, n, ..]."""
        if self.joint:
            return tree
        return jax.tree.map(lambda x: x.reshape(-1, self.num_agents, *x.shape[1:]), tree)

    def concatenate(self, by_group: PyTree, axis: int) -> PyTree:
        """Return the arrays of its groups, concatenated along the axis of agents."""
        arrays = [by_group[group] for group in self.groups]
        return arrays[0] if len(arrays) == 1 else jax.tree.map(lambda *xs: jnp.concatenate(xs, axis), *arrays)

    def split(self, tree: PyTree, axis: int) -> dict[str, PyTree]:
        """Undo `concatenate`: split the agents along `axis` into their groups."""
        cuts = [sum(self.sizes[: i + 1]) for i in range(len(self.sizes) - 1)]
        return {
            group: jax.tree.map(lambda x, i=i: jnp.split(x, cuts, axis)[i], tree) for i, group in enumerate(self.groups)
        }

    def observation(self, observation: PyTree, axis: int) -> PyTree:
        """Return the agents' observations, concatenated over their groups along `axis`, or the team's observation."""
        seen = self.concatenate(observation, axis)
        if self.joint:
            team = {"global_state": observation["global_state"]} if self.central else {}
            if "active" in observation:
                team["active"] = self.concatenate(observation["active"], axis)
            return {"agents": seen, **team}
        if not self.central:
            return seen
        many = lambda x: jnp.repeat(jnp.expand_dims(x, axis), self.num_agents, axis)
        return (seen if isinstance(seen, dict) else {"observation": seen}) | {
            "global_state": jax.tree.map(many, observation["global_state"])
        }

    def initial_carry(self, num_envs: int) -> PyTree:
        """Return the recurrent state of the policy's agents at the start of an episode, [B, n, ...]."""
        carry = self.unflatten(self.algorithm.initial_carry(self.batch(num_envs)))
        return TurnCarry(now=carry, before=carry) if self.in_turns else carry

    def act(
        self, agent: PyTree, carry: PyTree, key: Key, observation: PyTree, explore: bool
    ) -> tuple[dict[str, PyTree], PyTree, PyTree]:
        """Return (the actions by group, the carry, the extras [B, n, ...]) in B environments, as `Algorithm.act`."""
        seen = self.flatten(self.observation(observation, 1), 0)
        before = self.flatten(carry.now if self.in_turns else carry, 0)
        actions, after, extras = self.algorithm.act(agent, before, key, seen, explore)
        after = self.unflatten(after)
        if self.in_turns:
            turn = self.concatenate(observation["turn"], 1)
            after = where(turn, TurnCarry(now=after, before=carry.now), carry)
        return self.split(self.unflatten(actions), 1), after, self.unflatten(extras)

    def turn(self, observation: PyTree) -> Array:
        """Return from a rollout's observations whether it is the agents' turn, bool[T, B x n]."""
        return self.flatten(self.concatenate(observation["turn"], 2), 1)

    def rollout(self, name: str, rollout: Rollout) -> Rollout:
        """Return the rollout of the policy's agents, [T, B x n]; for a joint policy its team's rollout, [T, B].

        Args:
          name: the policy's, by which the rollout holds its carry and its extras.
          rollout: the rollout of the environment, [T, B] with dicts by group.
        """
        if self.joint:
            return self._team_rollout(name, rollout)
        concatenate = lambda tree: self.concatenate(tree, 2)
        flatten = lambda tree: self.flatten(tree, 1)
        observation, next_observation = (
            self.observation(seen, 2) for seen in (rollout.observation, rollout.next_observation)
        )
        action = concatenate(rollout.action)
        reward, mask = concatenate(rollout.reward), None
        terminated, truncated = (
            jnp.broadcast_to(x[..., None], reward.shape) for x in (rollout.terminated, rollout.truncated)
        )
        if "active" in rollout.observation:
            mask = concatenate(rollout.observation["active"])
            left = mask & ~concatenate(rollout.next_observation["active"])
            terminated, truncated, mask = terminated | left, truncated & ~left, flatten(mask)
        return Rollout(
            observation=flatten(observation),
            action=flatten(action),
            reward=flatten(reward),
            terminated=flatten(terminated),
            truncated=flatten(truncated),
            next_observation=flatten(next_observation),
            extras=flatten(rollout.extras[name]),
            carry=self.flatten(rollout.carry[name], 0),
            mask=mask,
        )

    def _team_rollout(self, name: str, rollout: Rollout) -> Rollout:
        """Return the rollout of a joint policy: the reward is the mean over the agents that are in the game.

        The episode terminates when the last agent leaves; steps after that do not count.
        """
        observation, next_observation = (
            self.observation(seen, 2) for seen in (rollout.observation, rollout.next_observation)
        )
        terminated, truncated, mask = rollout.terminated, rollout.truncated, None
        if "active" in observation:
            mask = jnp.any(observation["active"], axis=2)
            left = mask & ~jnp.any(next_observation["active"], axis=2)
            terminated, truncated = terminated | left, truncated & ~left
        return Rollout(
            observation=observation,
            action=self.concatenate(rollout.action, 2),
            reward=masked.mean(self.concatenate(rollout.reward, 2), observation.get("active"), (2,)),
            terminated=terminated,
            truncated=truncated,
            next_observation=next_observation,
            extras=rollout.extras[name],
            carry=rollout.carry[name],
            mask=mask,
        )
