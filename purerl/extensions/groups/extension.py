"""Groups of agents as an extension: one policy per group, needed for environments of several agents."""

from typing import TYPE_CHECKING, Any

from purerl import agent_groups
from purerl.errors import InputError
from purerl.extensions.groups.options import GroupOptions
from purerl.loop.extension import Extension
from purerl.loop.trainer import MakeTrainer, Trainer
from purerl.types import AlgorithmFactory, Config, Environment

if TYPE_CHECKING:
    from purerl.testing.report import Check


def wrap(make: MakeTrainer, options: Any) -> MakeTrainer:
    """Wrap a maker of trainers: train a policy for each group of agents."""

    def make_groups(algorithm: AlgorithmFactory, env: Environment, config: Config) -> Trainer:
        if not agent_groups.sizes(env) or config.plans:  # one that plans controls every player
            return make(algorithm, env, config)
        from purerl.extensions.groups.policies import groups_trainer

        return groups_trainer(make, options, algorithm, env, config)

    return make_groups


def prepare(options: GroupOptions, run: Any, env: Environment) -> Any:
    """Return the policies of a run's groups, with trained agents loaded."""
    from purerl.extensions.groups.policies import assigned

    if options.groups and not agent_groups.sizes(env):
        raise InputError(
            f"{run.environment} has a single agent: settings of a group '{options.groups[0][0]}' do not apply"
        )
    return assigned(run, env, {group: dict(values) for group, values in options.groups})


def checks(algorithm: AlgorithmFactory, config: Config, env: Any, name: str) -> "list[Check]":
    """Return the checks of an algorithm whose agents are in groups."""
    from purerl.extensions.groups import conformance

    return conformance.checks(algorithm, config, env, name)


def _needed(env: Environment, config: Config) -> str:
    several = agent_groups.sizes(env) and not config.plans
    return f"{getattr(env, 'id', type(env).__name__)} has groups of agents" if several else ""


EXTENSION = Extension(
    name="groups",
    options=GroupOptions,
    wrap=wrap,
    excludes=("levels", "host"),
    needed=_needed,
    prepare=prepare,
    starts=True,
    checks=checks,
)
