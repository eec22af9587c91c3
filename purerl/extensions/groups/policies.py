"""The policies of groups of agents: builds the config of `multi_agent` from the settings of each group.

By default each group has a separate policy, trained by the run's algorithm and config. The settings of a group
(`--set GROUP.NAME=VALUE`, `[groups.GROUP]` in TOML) are fields of its config, or one of

    algorithm = NAME     another algorithm, with that one's defaults
    policy = GROUP       the policy of another group
    frozen = true        do not learn; frozen = "random": act at random; frozen = RUN: act as a trained run's agent did
    start = RUN          start with a trained run's parameters and statistics, and keep learning with new schedules

`--start RUN` says the same of a run's only policy, or of all of its groups'.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax

from purerl import agent_groups, registry
from purerl.catalog.algorithms import FOLLOWERS
from purerl.errors import InputError, hints, unknown
from purerl.extensions.groups.joint import (
    SHARED,
    GroupsConfig,
    MultiAgentConfig,
    Policy,
    config_of,
    multi_agent,
    policies_for,
)
from purerl.extensions.groups.options import WORDS
from purerl.fields import is_static, number, pytree, static
from purerl.loop import train
from purerl.loop.trainer import MakeTrainer, Trainer
from purerl.loop.trainer import Policy as TrainedPolicy
from purerl.settings import objective_file
from purerl.settings.values import coerce
from purerl.trust import reading
from purerl.types import Algorithm, AlgorithmFactory, Config, Environment, EnvironmentSpec, Key, PyTree

SHARED_BY_ALL = tuple(name for name in SHARED if name != "discount")  # all policies of a run share these


@pytree
class Assigned:
    """The policy that some groups use."""

    groups: tuple[str, ...] = static(doc="the groups")
    factory: AlgorithmFactory | None = static(default=None, doc="its algorithm; None: the run's")
    config: Any = number(default=None, doc="its settings; None: the run's")
    numbers: Mapping[str, Any] = number(doc="numbers of the config that are set for the group")
    shapes: tuple[tuple[str, Any], ...] = static(default=(), doc="other fields that are set for it")
    frozen: bool = static(default=False, doc="act, but do not learn")
    agent: PyTree = number(default=None, doc="a trained agent that it begins with")

    def policy(self, factory: AlgorithmFactory, config: Config) -> Policy:
        """Return the policy in a run of this algorithm and config."""
        own = config if self.config is None else self.config
        return Policy(
            algorithm=self.factory or factory,
            config=dataclasses.replace(own, **self.numbers, **dict(self.shapes)),
            groups=self.groups,
            frozen=self.frozen,
            agent=self.agent,
        )


def groups_trainer(
    make: MakeTrainer, policies: object, factory: AlgorithmFactory, env: Environment, config: Config
) -> Trainer:
    """Return the trainer of the policies of all groups.

    Args:
      make: makes a trainer.
      policies: {name: Assigned} of `assigned`; anything else: a policy for each group.
      factory, config: the run's algorithm, or an algorithm that acts for all groups.
      env: an environment of several agents.

    Raises:
      InputError: if one policy acts for all groups, and settings of a group are given.
    """
    settings_given = isinstance(policies, dict) and any(_is_set(one) for one in policies.values())
    if isinstance(config, GroupsConfig) and settings_given:
        raise InputError("one policy plays all groups here: give its settings to the run, not to a group")
    if not isinstance(config, GroupsConfig):
        by_name = policies if isinstance(policies, dict) else {}
        made = {name: one.policy(factory, config) for name, one in by_name.items()}
        factory, config = multi_agent, policies_for(env, factory, config, **made)
    trainer = make(factory, env, config)
    if not isinstance(config, MultiAgentConfig):
        return trainer
    assert isinstance(trainer, train.CompiledTrainer)
    return dataclasses.replace(trainer, policies=_policies(env, config))


def _is_set(one: Assigned) -> bool:
    return bool(one.numbers or one.shapes or one.factory or one.frozen or len(one.groups) > 1 or one.config is not None)


def _policies(env: Environment, config: MultiAgentConfig) -> dict[str, TrainedPolicy]:
    """Return the policies under the names that a run's folder uses."""
    sizes = agent_groups.sizes(env)

    def one(name: str, policy: Policy) -> TrainedPolicy:
        joint = getattr(policy.config, "joint", False)
        own = config_of(config, policy.config, 1 if joint else sum(sizes[group] for group in policy.groups))
        return TrainedPolicy(factory=policy.algorithm, config=own, select=lambda agent: agent[name])

    return {name: one(name, policy) for name, policy in config.policies.items()}


def assigned(run: Any, env: Environment, settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Assigned]:
    """Return the policies of a run's groups by name, with the trained agents that they start from loaded.

    Args:
      run: `purerl.settings.runs.Settings`.
      env: its environment, of several agents.
      settings: the settings of groups, by group and name.

    Raises:
      InputError: if a group or a setting of a group does not exist, or has a wrong value.
    """
    names = agent_groups.sizes(env)
    for group in settings:
        if group not in names:
            raise unknown(f"group of {run.environment}", group, names)
    owners = {group: _owner(group, settings.get(group, {}), names) for group in names}
    policies = {}
    for name in sorted(set(owners.values())):
        if owners[name] != name:
            raise InputError(
                f"group '{name}' owns a shared policy, so it cannot itself use the policy of '{owners[name]}'"
            )
        groups = tuple(group for group in names if owners[group] == name)
        policies[name] = _assigned(run, name, settings.get(name, {}), groups)
    return policies


def _owner(group: str, settings: Mapping[str, Any], names: Mapping[str, int]) -> str:
    owner = settings.get("policy", group)
    if owner not in names:
        raise unknown(f"group in {group}.policy", str(owner), names)
    if owner != group and len(settings) > 1:
        others = ", ".join(name for name in settings if name != "policy")
        raise InputError(f"group '{group}' has the policy of '{owner}': set {others} there")
    return owner


def _assigned(run: Any, name: str, settings: Mapping[str, Any], groups: tuple[str, ...]) -> Assigned:
    from purerl.run.plan import load_policy

    factory, config, frozen, agent = None, None, settings.get("frozen", False), None
    if frozen == "random":
        return Assigned(groups=groups, factory=at_random, numbers={}, frozen=True)
    source = frozen if isinstance(frozen, str) else settings.get("start")
    if source is not None:
        factory, config, agent = load_policy(reading.path_of(source), name)
    elif run.options.start is not None and not run.begun:  # whose settings are the run's, unless others were given
        agent = load_policy(reading.path_of(run.options.start), name).agent
    if "algorithm" in settings:
        chosen = str(settings["algorithm"])
        factory, config_class = registry.algorithm(chosen)
        if chosen in FOLLOWERS:
            objective_file.check_rule(chosen, factory, f"the settings of {name} cannot give one")
        config = config_class()
    of = run.config if config is None else config
    known, numbers, shapes = hints(type(of)), {}, {}
    static_fields = {field.name for field in dataclasses.fields(of) if is_static(field)}
    for field, value in settings.items():
        if field in WORDS:
            continue
        if field in SHARED_BY_ALL:
            raise InputError(f"{name}.{field}: all policies of a run share {field}; set it for the run")
        if field not in known:
            others = [other for other in known if other not in SHARED_BY_ALL]
            raise unknown(f"setting of {name}", field, [*WORDS, *others])
        typed = coerce(value, known[field], f"{name}.{field}")
        (shapes if field in static_fields or typed is None else numbers)[field] = typed
    return Assigned(
        groups=groups,
        factory=factory,
        config=config,
        numbers=numbers,
        shapes=tuple(shapes.items()),
        frozen=bool(frozen),
        agent=agent,
    )


def at_random(spec: EnvironmentSpec, config: Config) -> Algorithm:
    """Return the algorithm that samples every action uniformly among the legal ones, and never learns."""

    def act(
        agent: PyTree, carry: PyTree, key: Key, observation: PyTree, explore: bool
    ) -> tuple[PyTree, PyTree, PyTree]:
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
