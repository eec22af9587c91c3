"""Policies of a run with several agents: makes the config of `multi_agent` from the run's settings.

By default each group has a separate policy, trained by the run's algorithm and config. The settings of a group
(`--set GROUP.NAME=VALUE`, `[groups.GROUP]` in TOML) are fields of its config, or one of

    algorithm = NAME     another algorithm, with that one's defaults
    policy = GROUP       the policy of another group
    frozen = true        do not learn; frozen = "random": act at random; frozen = RUN: act as a trained run's agent did
    start = RUN          begin with a trained run's parameters and statistics, and learn on by schedules that begin anew

`--start RUN` says the same of a run's only policy, or of all of its groups'.
"""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl import agent_groups, registry
from purerl.catalog.algorithms import ALGORITHMS
from purerl.errors import InputError, hints, unknown
from purerl.multi_agent.joint import SHARED, Policy, config_of, multi_agent, policies_for
from purerl.multi_agent.search_play import SearchPlayConfig, check_game, search_play
from purerl.multi_agent.self_play import SELF, SelfPlayConfig, self_play, self_play_config
from purerl.multi_agent.warm_start import started
from purerl.settings.options import GROUP_WORDS
from purerl.settings.runs import Settings
from purerl.settings.values import coerce
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from purerl.types import Algorithm, Environment, EnvironmentSpec

SHARED_BY_ALL = tuple(name for name in SHARED if name != "discount")  # all policies of a run share these


class TrainedPolicy(NamedTuple):
    """A policy of a run that was trained before."""

    factory: Callable[..., Algorithm]
    config: Any
    agent: Any


LoadPolicy = Callable[[Path, str], TrainedPolicy]  # (a run's folder, the policy's name) -> the policy


def assemble(run: Settings, env: Environment, load: LoadPolicy) -> tuple[Callable[..., Algorithm], Any]:
    """Return (factory, config) of a run: its algorithm's, or those of its policies where there are groups of agents.

    Args:
      run: the settings.
      env: the environment.
      load: loads the agents of other runs that groups start from.

    Raises:
      InputError: if a group or a setting of a group does not exist, or has a wrong value.
    """
    factory = run.make_algorithm()
    if factory in (multi_agent, self_play, search_play):  # the config has the policies
        return factory, run.config
    names = agent_groups.sizes(env)
    if run.options.self_play:
        if run.groups:
            raise InputError("self-play has one policy for both groups: set it for the run, not by group")
        if run.config.uses_model:
            check_game(names, run.environment)
        play, kind = (search_play, SearchPlayConfig) if run.config.uses_model else (self_play, SelfPlayConfig)
        return play, self_play_config(_begun(run, factory, load), run.config, run.options.self_play, kind)
    for group in run.groups:
        if not names:
            raise InputError(
                f"{run.environment} is a single-agent environment: settings of a group '{group}' do not apply"
            )
        if group not in names:
            raise unknown(f"group of {run.environment}", group, names)
    if not names:
        _check_actions(run, env)
    if not names or run.config.uses_model:  # one that plans plays the game in turns for every side
        return _begun(run, factory, load), run.config
    owners = {group: _owner(group, run.groups.get(group, {}), names) for group in names}
    policies = {}
    for name in sorted(set(owners.values())):
        if owners[name] != name:
            raise InputError(
                f"group '{name}' owns a shared policy, so it cannot itself use the policy of '{owners[name]}'"
            )
        groups = tuple(group for group in names if owners[group] == name)
        policies[name] = _policy(run, name, run.groups.get(name, {}), groups, load)
    return multi_agent, policies_for(env, factory, run.config, **policies)


def _check_actions(run: Settings, env: Environment) -> None:
    """Hold a single agent's actions to those that the algorithm takes; say which algorithms take them."""
    entry, kind = ALGORITHMS.get(run.algorithm), _kind_of(env.action_space)
    if entry is None or kind is None or entry.teams or kind in entry.actions:
        return
    fitting = [name for name, other in sorted(ALGORITHMS.items()) if kind in other.actions and not other.teams]
    raise InputError(
        f"{run.algorithm} needs {' or '.join(entry.actions)} actions, and those of {run.environment} are {kind}, "
        f"{env.action_space}; {', '.join(fitting)} take them"
    )


def _kind_of(space: Space) -> str | None:
    """Return the word that the table of algorithms has for a space of actions; None where it has none."""
    match space:
        case Discrete():
            return "discrete"
        case MultiDiscrete():
            return "multi-discrete"
        case Box() if len(space.shape) == 1 and np.issubdtype(np.dtype(space.dtype), np.floating):
            return "continuous"
        case Dict():
            return "dict"
    return None


def _begun(run: Settings, factory: Callable[..., Algorithm], load: LoadPolicy) -> Callable[..., Algorithm]:
    """Return a run's algorithm, whose agents begin with those of another run where the run says so."""
    source = run.options.start
    if source is None or run.begun:
        return factory
    return started(factory, load(Path(source), "").agent, f"the agent of {run.algorithm}, with {source},")


def _owner(group: str, settings: Mapping[str, Any], names: Mapping[str, int]) -> str:
    owner = settings.get("policy", group)
    if owner not in names:
        raise unknown(f"group in {group}.policy", str(owner), names)
    if owner != group and len(settings) > 1:
        others = ", ".join(name for name in settings if name != "policy")
        raise InputError(f"group '{group}' has the policy of '{owner}': set {others} there")
    return owner


def _policy(run: Settings, name: str, settings: Mapping[str, Any], groups: tuple[str, ...], load: LoadPolicy) -> Policy:
    factory, config = run.make_algorithm(), run.config
    frozen, agent = settings.get("frozen", False), None
    if frozen == "random":
        return Policy(algorithm=at_random, config=config, groups=groups, frozen=True)
    source = frozen if isinstance(frozen, str) else settings.get("start")
    if source is not None:
        factory, config, agent = load(Path(str(source)), name)
    elif run.options.start is not None and not run.begun:  # whose settings are the run's, unless others were given
        agent = load(Path(run.options.start), name).agent
    if "algorithm" in settings:
        factory, config_class = registry.algorithm(str(settings["algorithm"]))
        config = config_class()
    known, changes = hints(type(config)), {}
    for field, value in settings.items():
        if field in GROUP_WORDS:
            continue
        if field in SHARED_BY_ALL:
            raise InputError(f"{name}.{field}: all policies of a run share {field}; set it for the run")
        if field not in known:
            raise unknown(
                f"setting of {name}", field, [*GROUP_WORDS, *(other for other in known if other not in SHARED_BY_ALL)]
            )
        changes[field] = coerce(value, known[field], f"{name}.{field}")
    config = dataclasses.replace(config, **changes)
    return Policy(algorithm=factory, config=config, groups=groups, frozen=bool(frozen), agent=agent)


def trained_policy(
    factory: Callable[..., Algorithm], config: Any, env: Environment, agent: Any, name: str, source: str
) -> TrainedPolicy:
    """Return the policy of a name that a run has trained, or the only one, with the config that it was trained by.

    Args:
      factory, config: of the run, from `assemble`.
      env: that it was trained in.
      agent: of one seed of the run.
      name: of the policy.
      source: of the run, for messages.

    Raises:
      InputError: if the run has several policies and none of this name.
    """
    sizes = agent_groups.sizes(env)
    if factory is self_play:
        trained = config_of(config, config.policy, next(iter(sizes.values())))
        return TrainedPolicy(factory=config.algorithm, config=trained, agent=agent.learner[SELF])
    if factory is search_play:
        return TrainedPolicy(factory=config.algorithm, config=config_of(config, config.policy, 1), agent=agent.learner)
    if factory is not multi_agent:
        return TrainedPolicy(factory=factory, config=config, agent=agent)
    if name not in config.policies and len(config.policies) > 1:
        raise unknown(f"policy of {source}", name, config.policies)
    found = name if name in config.policies else next(iter(config.policies))
    policy = config.policies[found]
    joint = getattr(policy.config, "joint", False)
    trained = config_of(config, policy.config, 1 if joint else sum(sizes[group] for group in policy.groups))
    return TrainedPolicy(factory=policy.algorithm, config=trained, agent=agent[found])


def at_random(spec: EnvironmentSpec, config: Any) -> Algorithm:
    """Return the algorithm that draws every action, of the legal ones where a mask says which, and never learns."""

    def act(agent: Any, carry: Any, key: Any, observation: Any, explore: bool) -> tuple[Any, Any, Any]:
        num = jax.tree.leaves(observation)[0].shape[0]
        return (
            jax.vmap(lambda key, seen: agent_groups.draw(spec.action_space, key, seen))(
                jax.random.split(key, num), observation
            ),
            carry,
            (),
        )

    return Algorithm(
        init=lambda key: (), initial_carry=lambda num_envs: (), act=act, update=lambda agent, key, rollout: (agent, {})
    )
