"""References: what a rollout of states holds in place of observations, and the network that looks them up.

A reference is the number of a sample. An algorithm shuffles references and cuts them into minibatches as it does with
observations; its network rebuilds the observations of a part of them at a time, and once more for that part's gradient.
So the memory of observations is bounded by `PART_BYTES`, however many agents there are.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl import agent_groups
from purerl.devices.memory import nbytes
from purerl.errors import InputError
from purerl.loop.observing import RebuildsAgents, rebuilder
from purerl.networks.actor_critic import ActorCritic
from purerl.types import Array, Environment, PyTree, number, pytree, static
from purerl.xla.trees import where

PART_BYTES = 2**26  # bytes that are rebuilt together: observations, or the states that they are made of

Look = Callable[[PyTree, tuple[str, ...]], PyTree]  # (references, groups whose agents they are of) -> observations


def _rebuild_agent(env: Environment, state: PyTree, group: str, index: Array) -> PyTree:
    if isinstance(env, RebuildsAgents):
        return env.rebuild_agent(state, group, index)
    return jax.tree.map(lambda x: x[index], rebuilder(env)(state)[group])


@pytree
class Reference:
    """The numbers of observations in a rollout [T, B]."""

    sample: Array = number(doc="i32[...], (t B + b) N + an agent's number; agents count through groups by their names")
    after: bool = static(doc="observed after the step, not before it")
    shared: str = static(default="", doc="the part of the observation that is of no group; its agent's number is 0")


class Source(NamedTuple):
    """The states that references stand for."""

    env: Environment
    states: tuple[PyTree, PyTree]  # [T x B, ...], before and after each step
    sizes: dict[str, int]  # agents by group; {}: a single agent

    @property
    def num_agents(self) -> int:
        """N."""
        return sum(self.sizes.values()) or 1


def refer(env: Environment, states: tuple[PyTree, PyTree]) -> tuple[Source, PyTree, PyTree]:
    """Return (source, references to the observations before each step, references to those after it).

    The flags of who is active and whose turn it is are rebuilt at once.

    Args:
      env: whose observations are functions of its states.
      states: [T, B, ...], before and after each step.

    Raises:
      InputError: if there are more samples than an int32 can count.
    """
    length, num_envs = jax.tree.leaves(states[0])[0].shape[:2]
    flat = lambda tree: jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)
    source = Source(env=env, states=(flat(states[0]), flat(states[1])), sizes=agent_groups.sizes(env))
    if length * num_envs * source.num_agents >= 2**31:
        raise InputError("rebuild_observations: a rollout may have 2^31 samples at most; take shorter ones")
    before, after = states
    return source, _references(source, before, False), _references(source, after, True)


def _references(source: Source, states: PyTree, after: bool) -> PyTree:
    shape = jax.tree.leaves(states)[0].shape[:2]
    first = jnp.arange(math.prod(shape), dtype=jnp.int32).reshape(shape) * source.num_agents
    if not source.sizes:
        return Reference(sample=first, after=after)
    references: dict[str, Any] = {}
    for group, n in source.sizes.items():
        agents = _offset(source, group) + jnp.arange(n, dtype=jnp.int32)
        references[group] = Reference(sample=first[..., None] + agents, after=after)
    rebuild = rebuilder(source.env)
    parts = jax.eval_shape(rebuild, jax.tree.map(lambda x: x[0, 0], states))
    if "global_state" in parts:
        references["global_state"] = Reference(sample=first, after=after, shared="global_state")
    for flag in agent_groups.FLAGS:
        if flag in parts:  # one time step after the other, so that nothing larger is made on the way
            references[flag] = jax.lax.map(jax.vmap(lambda state, flag=flag: rebuild(state)[flag]), states)
    return references


def view(source: Source, references: PyTree, groups: tuple[str, ...]) -> PyTree:
    """Return the observations that references stand for.

    Args:
      source: the states.
      references: a `Reference`, or {"observation": Reference, "global_state": Reference} of a centralized critic.
      groups: the groups whose agents they are of; () for a single agent.
    """
    if isinstance(references, Reference):
        return _look(source, references, groups)
    observation = _look(source, references["observation"], groups)
    observation = observation if isinstance(observation, dict) else {"observation": observation}
    return observation | {"global_state": _look(source, references["global_state"], groups)}


def _look(source: Source, reference: Reference, groups: tuple[str, ...]) -> PyTree:
    env, states = source.env, source.states[reference.after]

    def one(sample: Array) -> PyTree:
        row, agent = sample // source.num_agents, sample % source.num_agents
        state = jax.tree.map(lambda x: x[row], states)
        if reference.shared:
            return rebuilder(env)(state)[reference.shared]
        if not groups:
            return rebuilder(env)(state)
        found = [_rebuild_agent(env, state, group, agent - _offset(source, group)) for group in groups]
        observation = found[0]
        for group, other in zip(groups[1:], found[1:], strict=True):
            inside = (agent >= _offset(source, group)) & (agent < _offset(source, group) + source.sizes[group])
            observation = where(inside, other, observation)
        return observation

    shape = reference.sample.shape
    row_bytes = nbytes(jax.eval_shape(lambda: jax.tree.map(lambda x: x[:1], states)))
    observations = in_parts(jax.vmap(one), reference.sample.reshape(-1), row_bytes)
    return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), observations)


def _offset(source: Source, group: str) -> int:
    """Return the number of a group's first agent."""
    names = list(source.sizes)
    return sum(source.sizes[name] for name in names[: names.index(group)])


def looking_up(net: ActorCritic, look: Callable[[PyTree], PyTree]) -> ActorCritic:
    """Return a network whose `value` and `unroll` are given references, and look up a part of them at a time."""

    def value(params: PyTree, carry: PyTree, references: PyTree) -> Array:
        one = jax.checkpoint(lambda part: net.value(params, part[0], look(part[1])), prevent_cse=False)
        return in_parts(one, (carry, references), _rebuilt_bytes(references, look))

    def unroll(params: PyTree, carry: PyTree, references: PyTree, done: Array) -> tuple[Any, Array, PyTree]:
        count = _count(done.shape[0], _rebuilt_bytes(references, look))
        if count == 1:
            return net.unroll(params, carry, look(references), done)

        def one(carry: PyTree, part: tuple[PyTree, Array]) -> tuple[PyTree, tuple[Any, Array, PyTree]]:
            policy, value, after = net.unroll(params, carry, look(part[0]), part[1])
            policy = jax.tree.map(lambda x: _led(x, value.shape), policy)  # such as a deviation that is one for all
            initial = net.initial_carry(done.shape[1]) if jax.tree.leaves(carry) else carry
            last = jax.tree.map(lambda x: x[-1], after)
            return where(part[1][-1], initial, last), (policy, value, after)

        cut = jax.tree.map(lambda x: _cut(x, count), (references, done))
        _, found = jax.lax.scan(jax.checkpoint(one, prevent_cse=False), carry, cut)
        return jax.tree.map(lambda x: _joined(x, done.shape[0]), found)

    return net._replace(value=value, unroll=unroll)


def _led(x: Array, lead: tuple[int, ...]) -> Array:
    """Return an array with these leading axes, along which one without them is repeated."""
    return x if x.shape[: len(lead)] == lead else jnp.broadcast_to(x, (*lead, *x.shape))


def in_parts(function: Callable[[PyTree], PyTree], tree: PyTree, row_bytes: int) -> PyTree:
    """Return function(tree), of arrays [N, ...], computed for at most `PART_BYTES` at a time.

    Args:
      function: of each row alone.
      tree: [N, ...].
      row_bytes: bytes of a row on the way.
    """
    size = jax.tree.leaves(tree)[0].shape[0]
    count = _count(size, row_bytes)
    if count == 1:
        return function(tree)
    found = jax.lax.map(function, jax.tree.map(lambda x: _cut(x, count), tree))
    return jax.tree.map(lambda x: _joined(x, size), found)


def _count(size: int, row_bytes: int) -> int:
    return max(1, min(size, -(-size * row_bytes // PART_BYTES)))


def _cut(x: Array, count: int) -> Array:
    """Return [count, M, ...] of [N, ...], the last row repeated where N is no multiple."""
    rows = -(-x.shape[0] // count)
    full = x if rows * count == x.shape[0] else x[np.minimum(np.arange(rows * count), x.shape[0] - 1)]
    return full.reshape(count, rows, *x.shape[1:])


def _joined(x: Array, size: int) -> Array:
    return x.reshape(-1, *x.shape[2:])[:size]


def _rebuilt_bytes(references: PyTree, look: Callable[[PyTree], PyTree]) -> int:
    """Return the bytes of the observations of one row of references."""
    return nbytes(jax.eval_shape(look, jax.tree.map(lambda x: x[:1], references)))
