"""Acting in host environments: the parts of an agent that acting reads, and one program for a step of a group."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from purerl.host_environment import HostSource
from purerl.prng import update_keys
from purerl.types import Algorithm, Array, Config, Key, PyTree
from purerl.xla import backend
from purerl.xla.trees import where, zeros

AgentPart = list[Array]  # the leaves of an agent that acting reads, such as parameters, but never a replay


class ActOnHost(Protocol):
    """The function by which a group of B environments acts in training: `Acting.act`."""

    def __call__(
        self, part: AgentPart, carry: PyTree, restart: ArrayLike, keys: Key, t: ArrayLike, observation: PyTree, /
    ) -> tuple[PyTree, PyTree, PyTree, PyTree, PyTree]:
        """Return (action, carry after, carry before, extras, prepared observation), each [B, ...].

        Args:
          part: a part of the agent.
          carry: [B, ...].
          restart: bool[B], where an episode starts.
          keys: [T, 2], of the rollout.
          t: i32[], the step of the rollout.
          observation: [B, ...], as the environment returns it; `HostSource.prepare` is applied here.
        """
        ...


class ActGreedily(Protocol):
    """The function by which a group acts in an evaluation: `Acting.act_greedily`."""

    def __call__(
        self, part: AgentPart, carry: PyTree, keys: Key, t: ArrayLike, observation: PyTree, /
    ) -> tuple[PyTree, PyTree]:
        """Return (action, carry after), each [B, ...]; arguments as for `ActOnHost`, with keys [T]."""
        ...


class Acting(NamedTuple):
    """The programs of actors, or the functions behind them."""

    part: Callable[[PyTree], AgentPart]  # agent -> the leaves that `act` reads
    copy: Callable[[AgentPart], AgentPart]  # copied arrays, so that the learner may overwrite its agent
    keys: Callable[[Key, Any], Key]  # (the run's key, number of updates) -> key[T, 2] of the rollout
    keys_of_group: Callable[[Key, Any], Key]  # (key[T, 2], which of several groups) -> the group's key[T, 2]
    act: ActOnHost
    act_greedily: ActGreedily
    statistics: Callable[[AgentPart], PyTree]  # what the agent normalizes observations by; None where it does not

    def compiled(self) -> "Acting":
        """Return the functions compiled, each as its own program."""
        names = ("copy", "keys", "keys_of_group", "act", "act_greedily")
        programs = {name: backend.jit(getattr(self, name)) for name in names}
        return self._replace(**programs)


def make_acting(algo: Algorithm, source: HostSource, config: Config, agent: PyTree, group_size: int) -> Acting:
    """Return the functions that act, to be compiled or used inside a program.

    Args:
      algo: the algorithm.
      source: the environments.
      config: the settings.
      agent: the shapes and dtypes of its agent.
      group_size: environments that act together.
    """
    leaves, structure = jax.tree.flatten(agent)
    needed = _needed(algo, source, agent, group_size)

    def rebuild(part: AgentPart) -> PyTree:
        given = iter(part)
        return structure.unflatten(
            [next(given) if use else jnp.asarray(zeros(x)) for x, use in zip(leaves, needed, strict=True)]
        )

    def act(part: AgentPart, carry: PyTree, restart: ArrayLike, keys: Key, t: ArrayLike, observation: PyTree):
        before = where(jnp.asarray(restart), algo.initial_carry(group_size), carry)
        observation = source.prepare(observation)
        action, after, extras = algo.act(rebuild(part), before, keys[t, 0], observation, True)
        return action, after, before, extras, observation

    def act_greedily(part: AgentPart, carry: PyTree, keys: Key, t: ArrayLike, observation: PyTree):
        action, carry, _ = algo.act(rebuild(part), carry, keys[t], source.prepare(observation), False)
        return action, carry

    def rollout_keys(key: Key, num_updates: Array) -> Key:
        return jax.random.split(update_keys(key, num_updates)[0], (config.rollout_length, 2))

    return Acting(
        part=lambda agent: [x for x, use in zip(jax.tree.leaves(agent), needed, strict=True) if use],
        copy=partial(jax.tree.map, jnp.copy),
        keys=rollout_keys,
        keys_of_group=jax.vmap(jax.vmap(jax.random.fold_in, (0, None)), (0, None)),
        act=act,
        act_greedily=act_greedily,
        statistics=lambda part: getattr(rebuild(part), "observation_statistics", None),
    )


def _needed(algo: Algorithm, source: HostSource, agent: PyTree, group_size: int) -> list[bool]:
    """Return for each leaf of an agent whether acting reads it."""
    batch = lambda leaf: jax.ShapeDtypeStruct((group_size, *leaf.shape), leaf.dtype)
    observation = jax.tree.map(batch, source.observation_space.struct)
    carry = jax.eval_shape(lambda: algo.initial_carry(group_size))
    key = jax.eval_shape(lambda: jax.random.key(0))

    def both(agent: PyTree, carry: PyTree, key: Key, observation: PyTree) -> tuple[PyTree, PyTree]:
        acted = algo.act(agent, carry, key, observation, True)
        return acted, algo.act(agent, carry, key, observation, False)

    program = jax.make_jaxpr(both)(agent, carry, key, observation).jaxpr
    read = {id(var) for equation in program.eqns for var in equation.invars} | {id(var) for var in program.outvars}
    return [id(var) in read for var in program.invars[: len(jax.tree.leaves(agent))]]
