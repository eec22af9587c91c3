"""Several policies in one environment: the algorithms of groups of agents as one `Algorithm`.

Each policy's algorithm sees its agents as a batch: n agents in each of B environments are B x n environments of one
agent. Observations, actions, rewards and carries are flattened for the algorithm and its results are unflattened, so
that whatever trains one agent trains many. An agent's episode terminates when it leaves the game; steps after that do
not count. If agents take turns, each learns only from its turns (`turn_based`), and its carry changes only in its
turns. An algorithm of teams (`joint` in its config) sees all agents of an environment as one
sample, whose observation is {"agents": [B, n, ...]}, with "active" and "global_state" where the environment has them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from purerl import agent_groups
from purerl.errors import InputError, unknown
from purerl.extensions.groups.group_policy import GroupPolicy
from purerl.extensions.groups.turn_based import OpenTurn, turns_only
from purerl.run.warm_start import begin_with
from purerl.spaces import Box, Dict, Space, Stacked, form, unstacked
from purerl.types import (
    Algorithm,
    AlgorithmFactory,
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

OPEN_TURNS = "open turns"  # name next to the policies' states: the turns whose outcome is still to come, by policy
SHARED = tuple(field.name for field in dataclasses.fields(Config))
# settings that a policy's config takes from the run's, except `discount`


@pytree
class Policy:
    """Settings of one policy: its algorithm, and the groups that use it."""

    algorithm: Any = static(doc="(spec, config) -> Algorithm")
    config: Any = number(doc="its settings; the shared ones come from the run")
    groups: tuple[str, ...] = static(doc="the groups of agents that use it")
    frozen: bool = static(default=False, doc="act, but do not learn")
    agent: PyTree = number(
        default=None,
        doc="a trained agent, which provides the initial parameters and statistics or, if frozen, acts",
    )


@pytree
class GroupsConfig(Config):
    """A config whose algorithm acts for all groups of an environment."""


@pytree
class MultiAgentConfig(GroupsConfig):
    """Settings of several policies in one environment; steps are environment steps."""

    policies: Mapping[str, Policy] = number(default=None, doc="the policies by name")


def multi_agent(spec: EnvironmentSpec, config: MultiAgentConfig) -> Algorithm:
    """Return the policies of all groups as one algorithm.

    With one policy for one group of one agent it is that policy's algorithm, to the bit.

    Args:
      spec: spaces that are `Dict`s of a `Stacked` space per group.
      config: the settings.

    Raises:
      InputError: if groups and policies do not match.
    """
    _check(spec, config)
    policies = {name: _bind(spec, config, config.policies[name]) for name in sorted(config.policies)}

    def keys_of(key: Key) -> dict[str, Key]:
        keys = [key] if len(policies) == 1 else jax.random.split(key, len(policies))
        return dict(zip(policies, keys, strict=True))

    def init(key: Key) -> dict[str, PyTree]:
        keys = keys_of(key)
        agent = {name: _begin_agent(name, policy, keys[name]) for name, policy in policies.items()}
        learn = {name: policy for name, policy in policies.items() if policy.in_turns and not policy.frozen}
        none = {name: _no_turn(policy, agent[name], config.num_envs) for name, policy in learn.items()}
        return agent | ({OPEN_TURNS: none} if none else {})

    def initial_carry(num_envs: int) -> dict[str, PyTree]:
        return {name: policy.initial_carry(num_envs) for name, policy in policies.items()}

    def act(agent: dict[str, PyTree], carry: dict[str, PyTree], key: Key, observation: PyTree, explore: bool):
        action, after, extras, keys = {}, {}, {}, keys_of(key)
        for name, policy in policies.items():
            actions, after[name], extras[name] = policy.act(agent[name], carry[name], keys[name], observation, explore)
            action |= actions
        return action, after, extras

    def update(agent: dict[str, PyTree], key: Key, rollout: Rollout) -> tuple[dict[str, PyTree], Metrics]:
        agent, metrics, open_turns, keys = dict(agent), {}, {}, keys_of(key)
        for name, policy in policies.items():
            if policy.frozen:
                continue
            seen = policy.rollout(name, rollout)
            if policy.in_turns:
                turn, next_turn = (policy.turn(part) for part in (rollout.observation, rollout.next_observation))
                seen, open_turns[name] = turns_only(seen, turn, next_turn, agent[OPEN_TURNS][name])
            agent[name], found = policy.algorithm.update(agent[name], keys[name], seen)
            metrics |= found if len(policies) == 1 else {f"{name}/{metric}": value for metric, value in found.items()}
        return agent | ({OPEN_TURNS: open_turns} if open_turns else {}), metrics

    return Algorithm(init=init, initial_carry=initial_carry, act=act, update=update)


def policies_for(env: Any, algorithm: AlgorithmFactory, config: Config, **by_group: Policy) -> MultiAgentConfig:
    """Return the config for `multi_agent` with a policy per group of an environment.

    Args:
      env: an environment of several agents.
      algorithm, config: for every group that is not named; the shared settings also come from here.
      **by_group: policies by the names of their groups.

    Raises:
      InputError: if the environment has no groups of agents.
    """
    if not agent_groups.sizes(env):
        raise InputError(f"{type(env).__name__} has no groups of agents: train {algorithm.__name__} on it directly")
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
    """Check that groups with a shared policy have the same observation and action spaces."""
    assert isinstance(spec.observation_space, Dict) and isinstance(spec.action_space, Dict)
    seen, done = spec.observation_space.spaces, spec.action_space.spaces
    for group in shared[1:]:
        if form(seen[group].space) != form(seen[shared[0]].space):
            raise InputError(
                f"groups '{shared[0]}' and '{group}' share policy '{name}', but have different observation spaces"
            )
        if repr(done[group].space) != repr(done[shared[0]].space):
            raise InputError(
                f"groups '{shared[0]}' and '{group}' share policy '{name}', but have different action spaces"
            )


def _bind(spec: EnvironmentSpec, config: MultiAgentConfig, settings: Policy) -> GroupPolicy:
    assert isinstance(spec.observation_space, Dict) and isinstance(spec.action_space, Dict)
    sizes = tuple(spec.action_space.spaces[group].n for group in settings.groups)
    central = (
        bool(getattr(settings.config, "centralized_critic", False)) and "global_state" in spec.observation_space.spaces
    )
    joint, in_turns = bool(getattr(settings.config, "joint", False)), "turn" in spec.observation_space.spaces
    if settings.config.plans:
        raise InputError("planning algorithms control all players and cannot be assigned to one group")
    if joint and in_turns:
        raise InputError("agents that take turns cannot be trained as a team, whose agents act at the same time")
    if in_turns and not getattr(settings.config, "takes_turns", True):
        raise InputError("agents that take turns cannot be trained from sequences of steps, as in r2d2; use dqn or ppo")
    seen, acts = (space.spaces[settings.groups[0]].space for space in (spec.observation_space, spec.action_space))
    if joint:
        n, team = sum(sizes), {"global_state": spec.observation_space.spaces["global_state"]} if central else {}
        if "active" in spec.observation_space.spaces:
            team["active"] = Box(low=0, high=1, shape=(n,), dtype=jnp.bool_)
        seen, acts = Dict(spaces={"agents": Stacked(space=seen, n=n), **team}), Stacked(space=acts, n=n)
    elif central:
        seen = _with_global(seen, spec.observation_space.spaces["global_state"])
    if in_turns:
        seen = unstacked(seen)  # the steps between are others' turns
    # A frozen agent that was trained before keeps its own config, with the horizon of its exploration.
    trained = settings.frozen and settings.agent is not None
    policy_config = settings.config if trained else config_of(config, settings.config, 1 if joint else sum(sizes))
    algorithm = settings.algorithm(EnvironmentSpec(seen, acts), policy_config)
    return GroupPolicy(
        algorithm=algorithm,
        observation_space=seen,
        groups=settings.groups,
        sizes=sizes,
        central=central,
        joint=joint,
        in_turns=in_turns,
        frozen=settings.frozen,
        agent=settings.agent,
    )


def config_of(config: Config, policy_config: Any, agents: int) -> Any:
    """Return a policy's config with the shared settings; it counts `agents` steps per environment step."""
    shared = {name: getattr(config, name) for name in SHARED if name != "discount"}
    if agents > 1:
        shared["num_envs"] = config.num_envs * agents
        shared["total_timesteps"] = config.total_timesteps * float(agents)
    return dataclasses.replace(policy_config, **shared)


def _with_global(space: Space, state: Space) -> Space:
    policies = dict(space.spaces) if isinstance(space, Dict) else {"observation": space}
    return Dict(spaces=policies | {"global_state": state})


def _begin_agent(name: str, policy: GroupPolicy, key: Key) -> PyTree:
    """Return a policy's initial state: the given agent's parameters, and the rest as its algorithm initializes it."""
    fresh = policy.algorithm.init(key)
    return fresh if policy.agent is None else begin_with(fresh, policy.agent, f"policy '{name}'", policy.frozen)


def _no_turn(policy: GroupPolicy, agent: PyTree, num_envs: int) -> OpenTurn:
    """Return the state in which no turn of a policy's agents is open."""
    num, algorithm = policy.batch(num_envs), policy.algorithm
    more = lambda leaf: jax.ShapeDtypeStruct((num, *leaf.shape), leaf.dtype)
    seen = jax.tree.map(more, policy.observation_space.struct)
    act = lambda agent, seen: algorithm.act(agent, algorithm.initial_carry(num), jax.random.key(0), seen, True)
    action, _, extras = jax.eval_shape(act, agent, seen)
    return OpenTurn.none(seen, action, extras)
