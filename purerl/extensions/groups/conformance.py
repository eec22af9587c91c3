"""Conformance checks of algorithms with groups of agents: leaving agents, turns, trained agents in other runs."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from purerl.errors import InputError
from purerl.extensions.groups.joint import Policy, multi_agent, policies_for
from purerl.loop.train import CompiledTrainer, collect, compiled_trainer
from purerl.spaces import Box, Dict, Space, Stacked
from purerl.testing.probes import Probe
from purerl.testing.report import Check
from purerl.testing.trees import difference, host
from purerl.types import AlgorithmFactory, Array, Config, Environment, Key, PyTree, TimeStep, number, pytree

UPDATES = 4


def checks(algorithm: AlgorithmFactory, config: Config, probe: Probe, name: str) -> list[Check]:
    """Return the checks that an algorithm passes.

    Args:
      algorithm: (spec, config) -> Algorithm.
      config: its settings.
      probe: an environment that it takes.
      name: for messages.

    Raises:
      InputError: for the first thing that is wrong.
    """
    groups = _check_groups(algorithm, config, Duo(probe=probe), name)
    return [*groups, *(_check_turns(algorithm, config, probe, length, name) for length in (1, 3))]


@pytree
class Duo(Environment):
    """Two agents `left` and one agent `right`, each in its own probe; the second agent of `left` leaves after a step.

    An episode ends after four steps, by the time.
    """

    probe: Probe = number()

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start all three."""
        places = jax.vmap(self.probe.reset)(jax.random.split(key, 3))[0]
        return (places, jnp.int32(0)), self._seen(places, jnp.int32(0))

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step all three; a probe that ended starts again."""
        places, time = state
        actions = jax.tree.map(lambda *xs: jnp.concatenate(xs), action["left"], action["right"])
        keys = jax.random.split(key, (3, 2))
        after, step = jax.vmap(self.probe.step)(keys[:, 0], places, actions)
        again, _ = jax.vmap(self.probe.reset)(keys[:, 1])
        places, time = jnp.where(step.done, again, after), time + 1
        reward = {"left": step.reward[:2], "right": step.reward[2:]}
        return (places, time), TimeStep.transition(self._seen(places, time), reward, time_up=time >= 4)

    def _seen(self, places: Array, time: Array) -> PyTree:
        observation = self.probe.observation[places]
        active = {"left": jnp.array([True, False]) | (time < 1), "right": jnp.array([True])}
        return {"left": observation[:2], "right": observation[2:], "active": active}

    @property
    def observation_space(self) -> Space:
        """The probe's observation space, per agent."""
        flags = lambda n: Box(low=0, high=1, shape=(n,), dtype=jnp.bool_)
        active = Dict(spaces={"left": flags(2), "right": flags(1)})
        return Dict(spaces=self._groups(self.probe.observation_space) | {"active": active})

    @property
    def action_space(self) -> Space:
        """The probe's action space, per agent."""
        return Dict(spaces=self._groups(self.probe.action_space))

    def _groups(self, space: Space) -> dict[str, Space]:
        return {"left": Stacked(space=space, n=2), "right": Stacked(space=space, n=1)}


@pytree
class InTurns(Environment):
    """Two agents, `first` and `second`, that take turns, each in its own probe; the first player is random.

    An episode ends after five steps, by the time.
    """

    probe: Probe = number()

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start both."""
        key_places, key_begins = jax.random.split(key)
        places = jax.vmap(self.probe.reset)(jax.random.split(key_places, 2))[0]
        state = places, jax.random.bernoulli(key_begins), jnp.int32(0)
        return state, self._seen(*state[:2])

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step the probe of the agent whose turn it is; a probe that ended starts again."""
        places, second, time = state
        key_step, key_again = jax.random.split(key)
        turn = second.astype(jnp.int32)
        chosen = jax.tree.map(lambda x, y: jnp.where(second, y[0], x[0]), action["first"], action["second"])
        after, step = self.probe.step(key_step, places[turn], chosen)
        places = places.at[turn].set(jnp.where(step.done, self.probe.reset(key_again)[0], after))
        reward = {
            "first": jnp.where(second, 0.0, step.reward)[None],
            "second": jnp.where(second, step.reward, 0.0)[None],
        }
        state = places, ~second, time + 1
        return state, TimeStep.transition(self._seen(*state[:2]), reward, time_up=time + 1 >= 5)

    def _seen(self, places: Array, second: Array) -> PyTree:
        observation = self.probe.observation[places]
        turn = {"first": ~second[None], "second": second[None]}
        return {"first": observation[:1], "second": observation[1:], "turn": turn}

    @property
    def observation_space(self) -> Space:
        """The probe's observation space, per agent."""
        flag = Box(low=0, high=1, shape=(1,), dtype=jnp.bool_)
        turn = Dict(spaces={"first": flag, "second": flag})
        return Dict(spaces=self._groups(self.probe.observation_space) | {"turn": turn})

    @property
    def action_space(self) -> Space:
        """The probe's action space, per agent."""
        return Dict(spaces=self._groups(self.probe.action_space))

    def _groups(self, space: Space) -> dict[str, Space]:
        return {name: Stacked(space=space, n=1) for name in ("first", "second")}


def _check_turns(algorithm: AlgorithmFactory, config: Config, probe: Probe, length: int, name: str) -> Check:
    """Check that the action and the observation of an agent out of turn change nothing."""
    what, env = f"in turns, rollouts of {length}", InTurns(probe=probe)
    try:
        config = dataclasses.replace(config, rollout_length=length)
        trainer = compiled_trainer(multi_agent, env, policies_for(env, algorithm, config))
    except InputError as error:
        return Check(what, f"rejected: {error}")
    state = jax.jit(trainer.init)(jax.random.key(0))

    @jax.jit
    def after(state: PyTree) -> list[PyTree]:
        state = jax.lax.fori_loop(0, UPDATES, lambda _, state: trainer.step(state)[0], state)
        _, rollout = collect(trainer.algorithm, trainer.vector, state, jax.random.key(2), length)
        other = rollout._replace(
            observation=_garbled(rollout.observation, _waits(rollout)),
            action=_garbled(rollout.action, _waits(rollout)),
        )
        return _learned(trainer, state, rollout, other)

    found = difference(*map(host, after(state)))
    if found is not None:
        raise InputError(f"{name}: with rollouts of {length}, what an agent does off its turn changes agent{found}")
    return Check(what)


def _learned(trainer: CompiledTrainer, state: PyTree, *rollouts: PyTree) -> list[PyTree]:
    """Return the agents that learned from each rollout, by one copy of the update, which compiles once."""
    update = lambda rollout: trainer.algorithm.update(state.agent, jax.random.key(3), rollout)[0]
    agents = jax.lax.map(update, jax.tree.map(lambda *xs: jnp.stack(xs), *rollouts))
    return [jax.tree.map(lambda x, i=i: x[i], agents) for i in range(len(rollouts))]


def _waits(rollout: PyTree) -> dict[str, Array]:
    """Return by agent whether it waits for its turn, bool[T, B, 1]."""
    return {name: ~turn for name, turn in rollout.observation["turn"].items()}


def _garbled(tree: PyTree, where: dict[str, Array]) -> PyTree:
    """Change the numbers in the arrays of groups at bool[T, B, n]."""

    def one(x: Array, here: Array) -> Array:
        other = ~x if x.dtype == jnp.bool_ else (x + 1) % 2 if jnp.issubdtype(x.dtype, jnp.integer) else 0.5 - x
        return jnp.where(here.reshape(here.shape + (1,) * (x.ndim - here.ndim)), other, x)

    return tree | {name: jax.tree.map(lambda x, h=here: one(x, h), tree[name]) for name, here in where.items()}


def _check_groups(algorithm: AlgorithmFactory, config: Config, env: Duo, name: str) -> list[Check]:
    """Train both groups, then garble the data of agents that left, start from the trained agent, and freeze it."""
    joint = policies_for(env, algorithm, config)
    try:
        trainer = compiled_trainer(multi_agent, env, joint)
    except InputError as error:
        return [Check("groups of agents", f"rejected: {error}")]
    begin, step = jax.jit(trainer.init), jax.jit(trainer.step)
    state = begin(jax.random.key(0))
    for _ in range(UPDATES):
        state, _ = step(state)
    checks = [_check_leaving(trainer, config, state, name)]
    trained = state.agent["left"]
    if not hasattr(trained, "params"):
        return [*checks, Check("start and frozen", "skipped for an agent without a field params")]
    begun = _with(env, algorithm, config, config, agent=trained)
    begun = jax.jit(begun.init)(jax.random.key(1)).agent["left"]
    if difference(host(begun.params), host(trained.params)) is not None:
        raise InputError(f"{name}: a policy that starts from a trained agent does not begin with its parameters")
    fresh = begin(jax.random.key(1)).agent["left"]
    if difference(host(begun.opt_state), host(fresh.opt_state)) is not None:
        raise InputError(f"{name}: a policy that starts from a trained agent does not start with a new optimizer")
    checks.append(Check("starts from a trained agent with schedules that start over"))
    return [*checks, _check_frozen(trainer, algorithm, config, state, env=env, name=name)]


def _with(env: Duo, algorithm: AlgorithmFactory, config: Config, shared: Any, **settings: Any) -> CompiledTrainer:
    """Return the trainer in which `left` has these settings."""
    policy = Policy(algorithm=algorithm, config=config, groups=("left",), **settings)
    return compiled_trainer(multi_agent, env, policies_for(env, algorithm, shared, left=policy))


def _check_leaving(trainer: CompiledTrainer, config: Config, state: PyTree, name: str) -> Check:
    """Check that the data of an agent after it left do not change what its policy learns."""
    length = config.rollout_length

    @jax.jit
    def both(state: PyTree) -> list[PyTree]:
        _, rollout = collect(trainer.algorithm, trainer.vector, state, jax.random.key(2), length)
        gone = {"left": ~rollout.observation["active"]["left"]}
        other = rollout._replace(
            observation=_garbled(rollout.observation, gone),
            next_observation=_garbled(rollout.next_observation, gone),
            action=_garbled(rollout.action, gone),
            reward=_garbled(rollout.reward, gone),
        )
        return _learned(trainer, state, rollout, other)

    plain, garbled = (agent["left"] for agent in both(state))
    parts = [agent._replace(replay=()) if hasattr(agent, "replay") else agent for agent in (plain, garbled)]
    found = difference(*map(host, parts))
    if found is not None:
        raise InputError(f"{name}: what an agent does after it left changes agent{found}")
    return Check("agents that left do not change what is learned")


def _check_frozen(
    trainer: CompiledTrainer, algorithm: AlgorithmFactory, config: Config, state: PyTree, env: Duo, name: str
) -> Check:
    """Check that a frozen policy acts as it did in training, in a run of another length."""
    trained = dataclasses.replace(
        config, num_envs=2 * config.num_envs, total_timesteps=2.0 * config.total_timesteps
    )  # as two agents in each environment count
    longer = dataclasses.replace(config, total_timesteps=100.0 * config.total_timesteps)
    frozen = _with(env, algorithm, trained, longer, frozen=True, agent=state.agent["left"])
    agent = jax.jit(frozen.init)(jax.random.key(4)).agent | {"right": state.agent["right"]}
    carry = trainer.algorithm.initial_carry(config.num_envs)
    for explore in (False, True):
        did, does = (
            of.algorithm.act(known, carry, jax.random.key(5), state.observation, explore)[0]["left"]
            for of, known in ((trainer, state.agent), (frozen, agent))
        )
        if difference(host(did), host(does)) is not None:
            raise InputError(f"{name}: frozen in another run, a policy does not act as it did (explore={explore})")
    return Check("a frozen policy acts bit-identically in another run")
