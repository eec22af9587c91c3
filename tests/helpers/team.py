"""An algorithm of teams as one of a single agent: the agent is a team of one."""

import jax
import jax.numpy as jnp

from purerl.extensions.groups.joint import multi_agent, policies_for
from purerl.spaces import Box, Dict, Stacked
from purerl.types import EnvironmentSpec


def of_one(factory):
    """Return (spec, config) -> Algorithm for the spaces of a single agent, which train by `factory` as a team of one.

    The global state is a constant, so that what the agent sees is all that there is to see.
    """

    def algorithm(spec, config):
        state = Box(low=0, high=1, shape=(1,))
        stacked = lambda space: Stacked(space=space, n=1)
        spaces = {"team": stacked(spec.observation_space), "global_state": state}
        group = EnvironmentSpec(Dict(spaces=spaces), Dict(spaces={"team": stacked(spec.action_space)}))
        team = multi_agent(group, policies_for(group, factory, config))

        def lifted(tree, axes):
            return {"team": jax.tree.map(lambda x: jnp.expand_dims(x, axes), tree)}

        def seen(observation, axes):
            shape = jax.tree.leaves(observation)[0].shape[:axes]
            return lifted(observation, axes) | {"global_state": jnp.ones((*shape, 1))}

        def act(agent, carry, key, observation, explore):
            action, carry, extras = team.act(agent, carry, key, seen(observation, 1), explore)
            return jax.tree.map(lambda x: x[:, 0], action["team"]), carry, extras

        def update(agent, key, rollout):
            rollout = rollout._replace(
                observation=seen(rollout.observation, 2),
                next_observation=seen(rollout.next_observation, 2),
                action=lifted(rollout.action, 2),
                reward=lifted(rollout.reward, 2),
            )
            return team.update(agent, key, rollout)

        return team._replace(act=act, update=update)

    algorithm.__name__ = factory.__name__
    return algorithm
