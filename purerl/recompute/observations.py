"""Rollouts that keep states in place of observations; the learner rebuilds observations where it needs them.

Neither the loop nor an algorithm knows of it: the loop steps an environment that shows its states, and what an
algorithm's network is given are references, which it looks up (`purerl.recompute.references`).
"""

from collections.abc import Callable

import jax

from purerl.errors import InputError
from purerl.recompute.references import refer, view
from purerl.types import (
    Algorithm,
    AlgorithmFactory,
    Config,
    Environment,
    EnvironmentSpec,
    Key,
    Metrics,
    PyTree,
    Rollout,
    TimeStep,
    pytree,
)
from purerl.wrappers import Wrapper


@pytree
class StatesOnly(Wrapper):
    """What it shows of an environment is its state."""

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start an episode."""
        state, _ = self.env.reset(key)
        return state, state

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step the environment."""
        state, taken = self.env.step(key, state, action)
        return state, taken._replace(observation=state)

    def observe(self, state: PyTree) -> PyTree:
        """Return the state."""
        return state


def from_states(factory: AlgorithmFactory, env: Environment, spec: EnvironmentSpec, config: Config) -> Algorithm:
    """Return an algorithm that is shown states, as `StatesOnly` does, and learns what it would from observations.

    Raises:
      InputError: if observations do not follow from states, or the algorithm cannot look them up.
    """
    if type(env).observe is Environment.observe:
        raise InputError(
            f"rebuild_observations: {type(env).__name__} does not say how an observation follows from a state: it has "
            "no method observe"
        )

    def learner(look: Callable[..., PyTree]) -> Algorithm:
        return factory(spec._replace(view=look), config)

    shown = learner(lambda seen, names=(): seen)

    def act(agent: PyTree, carry: PyTree, key: Key, states: PyTree, explore: bool):
        return shown.act(agent, carry, key, jax.vmap(env.observe)(states), explore)

    def update(agent: PyTree, key: Key, rollout: Rollout) -> tuple[PyTree, Metrics]:
        source, seen, following = refer(env, (rollout.observation, rollout.next_observation))
        look = lambda seen, names=(): view(source, seen, names)
        return learner(look).update(agent, key, rollout._replace(observation=seen, next_observation=following))

    return Algorithm(shown.init, shown.initial_carry, act, update)
