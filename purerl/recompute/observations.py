"""Rollouts that keep states in place of observations; the learner rebuilds observations where it needs them.

`make_trainer(*from_states(ppo, env), config)` trains as `make_trainer(ppo, env, config)` does, in less memory for more
work. Neither the loop nor an algorithm knows of it: the loop steps an environment that observes its states, and the
algorithm's network is given references, which it looks up (`purerl.recompute.references`).
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from purerl.errors import InputError
from purerl.host_environment import HostSource
from purerl.loop.observing import rebuilder
from purerl.loop.train import CompiledTrainer, make_trainer
from purerl.multi_agent.joint import MultiAgentConfig, Policy
from purerl.multi_agent.self_play import SelfPlayConfig
from purerl.networks.actor_critic import actor_critic_of
from purerl.recompute.references import Look, looking_up, refer, view
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
    """Observes the state of an environment; the spaces stay those of the environment."""

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start an episode."""
        state, _ = self.env.reset(key)
        return state, state

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step the environment."""
        state, timestep = self.env.step(key, state, action)
        return state, timestep._replace(observation=state)

    def observe(self, state: PyTree) -> PyTree:
        """Return the state."""
        return state


def from_states(factory: AlgorithmFactory, env: Environment | HostSource) -> tuple[AlgorithmFactory, StatesOnly]:
    """Return (factory, environment) of rollouts that keep states; their agents are those of the given pair.

    Args:
      factory: of an algorithm whose `network` argument is an actor-critic (PPO, A2C, IMPALA), or of several of them.
      env: an environment whose observation is a function of its state: it has `observe`, or `rebuild`.

    Raises:
      InputError: if observations do not follow from states; the new factory also raises one if an algorithm cannot
        rebuild observations.
    """
    if isinstance(env, HostSource):
        raise InputError(f"rebuild_observations: {env.id} runs on the host and shows no states")
    rebuild = rebuilder(env)

    def states_factory(spec: EnvironmentSpec, config: Config, model: Any = None) -> Algorithm:
        _check(factory, config)  # which refuses those that a model is for
        if "turn" in getattr(spec.observation_space, "spaces", ()):
            raise InputError(
                "rebuild_observations goes without turns: one whose outcome is still to come is carried to the next "
                "rollout, which holds other states"
            )
        plain = factory(spec, config)

        def act(agent: PyTree, carry: PyTree, key: Key, states: PyTree, explore: bool) -> tuple[PyTree, PyTree, PyTree]:
            return plain.act(agent, carry, key, jax.vmap(rebuild)(states), explore)

        def update(agent: PyTree, key: Key, rollout: Rollout) -> tuple[PyTree, Metrics]:
            source, observation, next_observation = refer(env, (rollout.observation, rollout.next_observation))
            look = lambda references, groups: view(source, references, groups)
            learner = _with_looking_networks(factory, spec, config, look)
            rollout = rollout._replace(observation=observation, next_observation=next_observation)
            return learner.update(agent, key, rollout)

        return Algorithm(init=plain.init, initial_carry=plain.initial_carry, act=act, update=update)

    return states_factory, StatesOnly(env)


def make_rebuilding_trainer(factory: AlgorithmFactory, env: Environment, config: Config) -> CompiledTrainer:
    """Return the trainer of `from_states(factory, env)`; as `purerl.loop.train.make_trainer`."""
    return make_trainer(*from_states(factory, env), config)


def rebuilds(factory: AlgorithmFactory, config: Config) -> bool:
    """Return whether an algorithm can rebuild observations: its `network` is an actor-critic, and it has no model."""
    return actor_critic_of(factory) is not None and not getattr(config, "uses_model", False)


def _check(factory: AlgorithmFactory, config: Config) -> None:
    """Hold every policy that learns to an algorithm that can rebuild observations."""
    if isinstance(config, MultiAgentConfig):
        learners = {name: (p.algorithm, p.config) for name, p in config.policies.items() if not p.frozen}
    elif isinstance(config, SelfPlayConfig):
        learners = {"": (config.algorithm, config.policy)}
    else:
        learners = {"": (factory, config)}
    for name, (algorithm, settings) in learners.items():
        if not rebuilds(algorithm, settings):
            who = f"policy '{name}'" if name else getattr(algorithm, "__name__", "the algorithm")
            raise InputError(
                f"rebuild_observations: {who} needs observations; it is for all policies or none, of a2c, ppo, "
                "mappo, vmpo, impala and their variants"
            )
        if getattr(settings, "normalize_observation", False):
            raise InputError(
                "rebuild_observations goes without normalize_observation: its statistics need them all at once"
            )
        if getattr(settings, "curiosity", "none") != "none":
            raise InputError("rebuild_observations goes without curiosity: it needs all observations at once")


def _with_looking_networks(factory: AlgorithmFactory, spec: EnvironmentSpec, config: Config, look: Look) -> Algorithm:
    """Return the algorithm with networks that look references up, by the groups whose agents they are of."""
    if isinstance(config, MultiAgentConfig):

        def looking_policy(policy: Policy) -> Policy:
            if policy.frozen:
                return policy
            return dataclasses.replace(policy, algorithm=_looking(policy.algorithm, look, policy.groups))

        policies = {name: looking_policy(policy) for name, policy in config.policies.items()}
        return factory(spec, dataclasses.replace(config, policies=policies))
    if isinstance(config, SelfPlayConfig):
        groups = tuple(sorted(spec.action_space.spaces))  # type: ignore[attr-defined]
        return factory(spec, dataclasses.replace(config, algorithm=_looking(config.algorithm, look, groups)))
    return _looking(factory, look, ())(spec, config)


def _looking(factory: Callable[..., Algorithm], look: Look, groups: tuple[str, ...]) -> AlgorithmFactory:
    network = actor_critic_of(factory)
    assert network is not None
    wrapped = lambda *args: looking_up(network(*args), lambda references: look(references, groups))
    return partial(factory, network=wrapped)
