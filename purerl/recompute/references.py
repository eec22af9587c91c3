"""References: what a rollout of states holds in place of observations, and the network that looks them up.

A reference is the number of a sample. An algorithm shuffles references and cuts them into minibatches as it does with
observations; its network rebuilds the observations of a part of them at a time, and once more for that part's gradient.
So the memory that observations take is bounded by `PART`, however many agents there are.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl import agent_groups
from purerl.errors import InputError
from purerl.networks.actor_critic import ActorCritic
from purerl.types import Array, Environment, PyTree, number, pytree, static

PART = 2**26  # bytes that are rebuilt together: observations, or the states that they are made of


@pytree
class Reference:
    """Which observations of a rollout [T, B]."""

    sample: Array = number(doc="i32[...], (t B + b) N + an agent's number; agents count through groups by their names")
    following: bool = static(doc="what followed the step, not what was acted on")
    shared: str = static(default="", doc="the part of the observation that is of no group; its agent's number is 0")


class Source(NamedTuple):
    """What references refer to."""

    env: Environment
    states: tuple[PyTree, PyTree]  # [T x B, ...], those acted in and those that followed
    sizes: dict[str, int]  # agents by group; {}: a single agent

    @property
    def num_agents(self) -> int:
        """N."""
        return sum(self.sizes.values()) or 1


def refer(env: Environment, states: tuple[PyTree, PyTree]) -> tuple[Source, PyTree, PyTree]:
    """Return (source, references in place of the observations acted on, and of those that followed).

    Who is active and whose turn it is are not referred to, but looked at.

    Args:
      env: whose `observe` makes observations of states.
      states: [T, B, ...], those acted in and those that followed.

    Raises:
      InputError: if there are more samples than an int32 can count.
    """
    length, num_envs = jax.tree.leaves(states[0])[0].shape[:2]
    flat = lambda tree: jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)
    source = Source(env, (flat(states[0]), flat(states[1])), agent_groups.sizes(env))
    if length * num_envs * source.num_agents >= 2**31:
        raise InputError("rebuild_observations: a rollout may have 2^31 samples at most; take shorter ones")
    seen = [_references(source, kept, following) for following, kept in enumerate(states)]
    return source, *seen


def _references(source: Source, states: PyTree, following: int) -> PyTree:
    shape = jax.tree.leaves(states)[0].shape[:2]
    first = jnp.arange(math.prod(shape), dtype=jnp.int32).reshape(shape) * source.num_agents
    if not source.sizes:
        return Reference(sample=first, following=bool(following))
    found: dict[str, Any] = {}
    for group, n in source.sizes.items():
        agents = _offset(source, group) + jnp.arange(n, dtype=jnp.int32)
        found[group] = Reference(sample=first[..., None] + agents, following=bool(following))
    parts = jax.eval_shape(source.env.observe, jax.tree.map(lambda x: x[0, 0], states))
    if "global_state" in parts:
        found["global_state"] = Reference(sample=first, following=bool(following), shared="global_state")
    for flag in agent_groups.FLAGS:
        if flag in parts:  # one time step after the other, so that nothing larger is made on the way
            found[flag] = jax.lax.map(jax.vmap(lambda state, flag=flag: source.env.observe(state)[flag]), states)
    return found


def view(source: Source, seen: PyTree, names: tuple[str, ...] = ()) -> PyTree:
    """Return the observations that references stand for.

    Args:
      source: what they refer to.
      seen: a `Reference`, or {"observation": Reference, "global_state": Reference} of a centralized critic.
      names: the groups whose agents they are of; () for a single agent.
    """
    if isinstance(seen, Reference):
        return _look(source, seen, names)
    own = _look(source, seen["observation"], names)
    own = own if isinstance(own, dict) else {"observation": own}
    return own | {"global_state": _look(source, seen["global_state"], names)}


def _look(source: Source, reference: Reference, names: tuple[str, ...]) -> PyTree:
    env, states = source.env, source.states[reference.following]

    def one(sample: Array) -> PyTree:
        row, agent = sample // source.num_agents, sample % source.num_agents
        state = jax.tree.map(lambda x: x[row], states)
        if reference.shared:
            return env.observe(state)[reference.shared]
        if not names:
            return env.observe(state)
        found = [env.observe_agent(state, name, agent - _offset(source, name)) for name in names]
        seen = found[0]
        for name, other in zip(names[1:], found[1:], strict=True):
            inside = (agent >= _offset(source, name)) & (agent < _offset(source, name) + source.sizes[name])
            seen = jax.tree.map(lambda x, y, inside=inside: jnp.where(inside, x, y), other, seen)
        return seen

    shape = reference.sample.shape
    each = _nbytes(jax.tree.map(lambda x: x[:1], states))
    seen = in_parts(jax.vmap(one), reference.sample.reshape(-1), each)
    return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), seen)


def _offset(source: Source, group: str) -> int:
    names = list(source.sizes)
    return sum(source.sizes[name] for name in names[: names.index(group)])


def looking_up(net: ActorCritic, look: Callable[[PyTree], PyTree]) -> ActorCritic:
    """Return a network whose `value` and `unroll` take references, a part of their first axis at a time."""

    def value(params: PyTree, carry: PyTree, seen: PyTree) -> Array:
        one = jax.checkpoint(lambda given: net.value(params, given[0], look(given[1])), prevent_cse=False)
        return in_parts(one, (carry, seen), _rebuilt(seen, look))

    def unroll(params: PyTree, carry: PyTree, seen: PyTree, done: Array) -> tuple[Any, Array, PyTree]:
        each = _rebuilt(seen, look)

        def one(carry: PyTree, given: tuple[PyTree, Array]) -> tuple[PyTree, tuple[Any, Array, PyTree]]:
            policy, value, after = net.unroll(params, carry, look(given[0]), given[1])
            fresh = net.initial_carry(done.shape[1]) if jax.tree.leaves(carry) else carry
            clear = lambda new, old: jnp.where(given[1][-1].reshape(-1, *[1] * (new.ndim - 1)), new, old[-1])
            return jax.tree.map(clear, fresh, after), (policy, value, after)

        count = _count(done.shape[0], each)
        if count == 1:
            return net.unroll(params, carry, look(seen), done)
        cut = jax.tree.map(lambda x: _cut(x, count), (seen, done))
        _, found = jax.lax.scan(jax.checkpoint(one, prevent_cse=False), carry, cut)
        return jax.tree.map(lambda x: _joined(x, done.shape[0]), found)

    return net._replace(value=value, unroll=unroll)


def in_parts(function: Callable[[PyTree], PyTree], tree: PyTree, each: int) -> PyTree:
    """Return function(tree), of arrays [N, ...], a part of N at a time, so that a part takes `PART` bytes.

    Args:
      function: of each row alone.
      tree: [N, ...].
      each: bytes that a row takes on the way.
    """
    size = jax.tree.leaves(tree)[0].shape[0]
    count = _count(size, each)
    if count == 1:
        return function(tree)
    found = jax.lax.map(function, jax.tree.map(lambda x: _cut(x, count), tree))
    return jax.tree.map(lambda x: _joined(x, size), found)


def _count(size: int, each: int) -> int:
    return max(1, min(size, -(-size * each // PART)))


def _cut(x: Array, count: int) -> Array:
    """Return [count, M, ...] of [N, ...], the last row repeated where N is no multiple."""
    rows = -(-x.shape[0] // count)
    full = x if rows * count == x.shape[0] else x[np.minimum(np.arange(rows * count), x.shape[0] - 1)]
    return full.reshape(count, rows, *x.shape[1:])


def _joined(x: Array, size: int) -> Array:
    return x.reshape(-1, *x.shape[2:])[:size]


def _rebuilt(seen: PyTree, look: Callable[[PyTree], PyTree]) -> int:
    """Return the bytes of the observations that one place of the first axis stands for."""
    return _nbytes(jax.eval_shape(look, jax.tree.map(lambda x: x[:1], seen)))


def _nbytes(tree: PyTree) -> int:
    shapes = [jax.eval_shape(lambda x=x: x) for x in jax.tree.leaves(tree)]
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in shapes)
