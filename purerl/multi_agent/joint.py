"""Several policies in one environment: the algorithms of groups of agents, together one `Algorithm`.

Each policy's algorithm sees its agents as a batch: B environments with n agents are B x n of its own. Observations,
actions, rewards and memories are flattened on the way in and folded back on the way out, so that whatever trains one
agent trains many. An agent's episode terminates when it leaves the game; steps after that do not count. Where agents
take turns, each learns from its own (`purerl.multi_agent.turn_based`) and remembers nothing of the others'.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl import agent_groups
from purerl.errors import InputError, unknown
from purerl.multi_agent.turn_based import own_turns
from purerl.spaces import Dict, Space, Stacked
from purerl.types import (
    Algorithm,
    Array,
    Config,
    EnvironmentSpec,
    Key,
    Metrics,
    PyTree,
    Rollout,
    number,
    pytree,
    static,
)
from purerl.xla.trees import where

SHARED = tuple(Config.__dataclass_fields__)  # settings that a policy's own config takes from the run's, but `discount`


@pytree
class Policy:
    """How one policy learns, and whose it is."""

    algorithm: Any = static(doc="(spec, config) -> Algorithm")
    config: Any = number(doc="its settings; what all policies share is taken from the run's")
    groups: tuple[str, ...] = static(doc="the groups of agents that act by it")
    frozen: bool = static(default=False, doc="act, but do not learn")
    agent: PyTree = number(default=None, doc="what it knows at first; none: what its algorithm begins with")


@pytree
class MultiAgentConfig(Config):
    """Settings of several policies in one environment; steps are the environment's."""

    policies: Mapping[str, Policy] = number(default=None, doc="by name")


class Part(NamedTuple):
    """One policy at work."""

    algorithm: Algorithm
    groups: tuple[str, ...]
    sizes: tuple[int, ...]  # agents of each group
    central: bool  # whether its critic sees the global state
    joint: bool  # whether its algorithm takes all agents of an environment as one sample
    frozen: bool
    agent: PyTree

    @property
    def num_agents(self) -> int:
        """Agents in each environment."""
        return sum(self.sizes)


def multi_agent(spec: EnvironmentSpec, config: MultiAgentConfig) -> Algorithm:
    """Return the algorithm that the policies of groups are together.

    With one policy for one group of one agent it is that policy's algorithm, to the bit.

    Args:
      spec: spaces that are `Dict`s of a `Stacked` space per group.
      config: the settings.

    Raises:
      InputError: if groups and policies do not match.
    """
    _check(spec, config)
    parts = {name: _part(spec, config, config.policies[name]) for name in sorted(config.policies)}

    def keys_of(key: Key) -> dict[str, Key]:
        keys = [key] if len(parts) == 1 else jax.random.split(key, len(parts))
        return dict(zip(parts, keys, strict=True))

    def init(key: Key) -> dict[str, PyTree]:
        keys = keys_of(key)
        return {name: _begin_agent(name, part, keys[name]) for name, part in parts.items()}

    def initial_carry(num_envs: int) -> dict[str, PyTree]:
        return {
            name: _unfold(part.algorithm.initial_carry(_batch(part, num_envs)), part) for name, part in parts.items()
        }

    def act(agent: dict[str, PyTree], carry: dict[str, PyTree], key: Key, observation: PyTree, explore: bool):
        action, after, extras, keys = {}, {}, {}, keys_of(key)
        for name, part in parts.items():
            seen = _fold(_seen(part, observation, 1), part, 0)
            before = _fold(carry[name], part, 0)
            chosen, kept, extra = part.algorithm.act(agent[name], before, keys[name], seen, explore)
            if "turn" in observation and not part.joint:
                kept = where(_together(part, observation["turn"], 1).reshape(-1), kept, before)
            action |= _by_group(part, _unfold(chosen, part), 1)
            after[name], extras[name] = _unfold(kept, part), _unfold(extra, part)
        return action, after, extras

    def update(agent: dict[str, PyTree], key: Key, rollout: Rollout) -> tuple[dict[str, PyTree], Metrics]:
        agent, metrics, keys = dict(agent), {}, keys_of(key)
        for name, part in parts.items():
            if part.frozen:
                continue
            agent[name], own = part.algorithm.update(agent[name], keys[name], _own_rollout(name, part, rollout))
            metrics |= own if len(parts) == 1 else {f"{name}/{metric}": value for metric, value in own.items()}
        return agent, metrics

    return Algorithm(init=init, initial_carry=initial_carry, act=act, update=update)


def policies_for(env: Any, algorithm: Callable[..., Algorithm], config: Any, **by_group: Policy) -> MultiAgentConfig:
    """Return the config for `multi_agent` with a policy per group of an environment.

    Args:
      env: an environment of several agents.
      algorithm, config: of every group that is not named; what policies share comes from here.
      **by_group: policies of groups, by the group's name.
    """
    taken = {group for policy in by_group.values() for group in policy.groups}
    rest = [name for name in sorted(env.action_space.spaces) if name not in taken]
    policies = by_group | {name: Policy(algorithm=algorithm, config=config, groups=(name,)) for name in rest}
    shared = {name: getattr(config, name) for name in SHARED}
    return MultiAgentConfig(**shared, policies=policies)


def _check(spec: EnvironmentSpec, config: MultiAgentConfig) -> None:
    agent_groups.check("the environment", spec)
    names = agent_groups.sizes(spec)
    owner: dict[str, str] = {}
    for name, policy in config.policies.items():
        for group in policy.groups:
            if group not in names:
                raise unknown(f"group of policy '{name}'", group, names)
            if group in owner:
                raise InputError(f"group '{group}' has two policies, '{owner[group]}' and '{name}'; it must have one")
            owner[group] = name
        _same_spaces(spec, name, policy.groups)
    if missing := [group for group in names if group not in owner]:
        raise InputError(f"no policy for the groups: {', '.join(missing)}; policies: {', '.join(config.policies)}")


def _same_spaces(spec: EnvironmentSpec, name: str, shared: tuple[str, ...]) -> None:
    """Groups that share a policy must see and do alike."""
    assert isinstance(spec.observation_space, Dict) and isinstance(spec.action_space, Dict)
    seen, done = spec.observation_space.spaces, spec.action_space.spaces
    for group in shared[1:]:
        if seen[group].space.struct != seen[shared[0]].space.struct:
            raise InputError(f"groups '{shared[0]}' and '{group}' share policy '{name}', but observe different things")
        if repr(done[group].space) != repr(done[shared[0]].space):
            raise InputError(f"groups '{shared[0]}' and '{group}' share policy '{name}', but act differently")


def _part(spec: EnvironmentSpec, config: MultiAgentConfig, policy: Policy) -> Part:
    assert isinstance(spec.observation_space, Dict) and isinstance(spec.action_space, Dict)
    sizes = tuple(spec.action_space.spaces[group].n for group in policy.groups)
    central = (
        bool(getattr(policy.config, "centralized_critic", False)) and "global_state" in spec.observation_space.spaces
    )
    joint = bool(getattr(policy.config, "joint", False))
    if joint and "turn" in spec.observation_space.spaces:
        raise InputError("agents that take turns cannot be learned as a team, whose value is that of acting together")
    seen, done = (space.spaces[policy.groups[0]].space for space in (spec.observation_space, spec.action_space))
    if central:
        seen = _with_global(seen, spec.observation_space.spaces["global_state"])
    if joint:
        seen, done = Stacked(space=seen, n=sum(sizes)), Stacked(space=done, n=sum(sizes))
    agents = 1 if joint else sum(sizes)
    own = config_of(config, policy.config, agents)
    algorithm = policy.algorithm(EnvironmentSpec(seen, done), own)
    return Part(
        algorithm=algorithm,
        groups=policy.groups,
        sizes=sizes,
        central=central,
        joint=joint,
        frozen=policy.frozen,
        agent=policy.agent,
    )


def config_of(config: Config, own: Any, agents: int) -> Any:
    """Return a policy's config with what all share, counted in its own steps: `agents` per environment step."""
    shared = {name: getattr(config, name) for name in SHARED if name != "discount"}
    if agents > 1:
        shared["num_envs"] = config.num_envs * agents
        shared["total_timesteps"] = config.total_timesteps * float(agents)
    return dataclasses.replace(own, **shared)


def _with_global(space: Space, state: Space) -> Space:
    parts = dict(space.spaces) if isinstance(space, Dict) else {"observation": space}
    return Dict(spaces=parts | {"global_state": state})


def _batch(part: Part, num_envs: int) -> int:
    return num_envs if part.joint else num_envs * part.num_agents


def _begin_agent(name: str, part: Part, key: Key) -> PyTree:
    """Return what a policy knows at first: what it was given, the rest as its algorithm begins."""
    fresh = part.algorithm.init(key)
    if part.agent is None:
        return fresh
    given = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(part.agent)}

    def choose(path: Any, leaf: Array) -> Array:
        known = given.get(jax.tree_util.keystr(path))
        fits = known is not None and known.shape == leaf.shape and known.dtype == leaf.dtype
        if not fits and jax.tree_util.keystr(path).startswith(".params"):
            raise InputError(f"policy '{name}' does not fit what it is to begin with: {jax.tree_util.keystr(path)}")
        return jnp.asarray(known) if fits else leaf

    return jax.tree_util.tree_map_with_path(choose, fresh)


def _seen(part: Part, observation: PyTree, axis: int) -> PyTree:
    """Return what a policy's agents see, the agents of its groups side by side along `axis`."""
    seen = _together(part, observation, axis)
    if not part.central:
        return seen
    many = lambda x: jnp.repeat(jnp.expand_dims(x, axis), part.num_agents, axis)
    return (seen if isinstance(seen, dict) else {"observation": seen}) | {
        "global_state": jax.tree.map(many, observation["global_state"])
    }


def _by_group(part: Part, tree: PyTree, axis: int) -> dict[str, PyTree]:
    """Undo `_seen`'s joining: cut the agents along `axis` into their groups."""
    cuts = [sum(part.sizes[: i + 1]) for i in range(len(part.sizes) - 1)]
    return {
        group: jax.tree.map(lambda x, i=i: jnp.split(x, cuts, axis)[i], tree) for i, group in enumerate(part.groups)
    }


def _fold(tree: PyTree, part: Part, axis: int) -> PyTree:
    """Make axes [.., B, n, ..] one, [.., B x n, ..]; for a joint policy they stay."""
    if part.joint:
        return tree
    return jax.tree.map(lambda x: x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :]), tree)


def _unfold(tree: PyTree, part: Part) -> PyTree:
    """Make axis [B x n, ..] two again, [B, n, ..]."""
    if part.joint:
        return tree
    return jax.tree.map(lambda x: x.reshape(-1, part.num_agents, *x.shape[1:]), tree)


def _together(part: Part, by_group: PyTree, axis: int) -> PyTree:
    """Return what is of a policy's groups, side by side along the axis of agents."""
    found = [by_group[group] for group in part.groups]
    return found[0] if len(found) == 1 else jax.tree.map(lambda *xs: jnp.concatenate(xs, axis), *found)


def _own_rollout(name: str, part: Part, rollout: Rollout) -> Rollout:
    """Return what a policy's agents went through, [T, B x n]; a joint policy's rewards and endings are [T, B]."""
    together = lambda tree: _together(part, tree, 2)
    fold = lambda tree: _fold(tree, part, 1)
    observation, following = (_seen(part, seen, 2) for seen in (rollout.observation, rollout.next_observation))
    action = together(rollout.action)
    reward, mask = together(rollout.reward), None
    terminated, truncated = rollout.terminated, rollout.truncated
    if part.joint:
        reward = jnp.mean(reward, axis=2)
    else:
        terminated, truncated = (jnp.broadcast_to(x[..., None], reward.shape) for x in (terminated, truncated))
        if "active" in rollout.observation:
            mask = together(rollout.observation["active"])
            left = mask & ~together(rollout.next_observation["active"])
            terminated, truncated, mask = terminated | left, truncated & ~left, fold(mask)
        reward, terminated, truncated = fold(reward), fold(terminated), fold(truncated)
    own = Rollout(
        observation=fold(observation),
        action=fold(action),
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        next_observation=fold(following),
        extras=fold(rollout.extras[name]),
        carry=_fold(rollout.carry[name], part, 0),
        mask=mask,
    )
    if "turn" not in rollout.observation:
        return own
    turns = (fold(together(seen["turn"])) for seen in (rollout.observation, rollout.next_observation))
    return own_turns(own, *turns)
