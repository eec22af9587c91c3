"""The network of a planner that has the environment's model: a policy and a value from an observation."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp

from purerl.functional.action_masks import without_global_state
from purerl.functional.distributions import action_head
from purerl.networks.actor_critic import network_of
from purerl.planning.config import SearchConfig
from purerl.types import Array, EnvironmentSpec, Key, PyTree


class ApplySearchNetwork(Protocol):
    """The function of the network: `SearchNetwork.apply`."""

    def __call__(self, params: PyTree, observation: PyTree, /) -> tuple[Any, Array]:
        """Return (the distribution of actions [...], the value f32[...] on the network's scale).

        Args:
          params: from `init`.
          observation: [..., *shape], with any leading axes.
        """
        ...


class SearchNetwork(NamedTuple):
    """A policy and a value in one pass."""

    init: Callable[[Key], PyTree]  # key -> params
    apply: ApplySearchNetwork  # (params, observation) -> (policy, value)


def network_for(spec: EnvironmentSpec, config: SearchConfig, network: object) -> SearchNetwork:
    """Return the network of an actor-critic, or of a module below its heads."""
    observation_space = without_global_state(spec.observation_space)
    net = network_of(network)(observation_space, action_head(spec.action_space), config)  # type: ignore[arg-type]

    def apply(params: PyTree, observation: PyTree) -> tuple[Any, Array]:
        policy, value, _ = net.unroll(params, (), without_global_state(observation), jnp.zeros(0, jnp.bool_))
        return policy, value

    return SearchNetwork(init=net.init, apply=apply)
