"""A discovered objective as an extension: `purerl train ppo CartPole-v1 --objective zoo/NAME`."""

import dataclasses
import inspect
from functools import partial
from typing import Any

from purerl import registry
from purerl.catalog.algorithms import FOLLOWERS
from purerl.catalog.objectives import ObjectiveEntry
from purerl.errors import InputError
from purerl.fields import pytree, static
from purerl.loop.extension import Extension
from purerl.loop.trainer import MakeTrainer, Trainer
from purerl.settings import agent_file, objective_file
from purerl.settings.runs import Settings
from purerl.types import AlgorithmFactory, Config, Environment


@pytree
class ObjectiveOptions:
    """The objective of an algorithm, instead of its own."""

    objective: str = static(
        default="none", doc="objective to train with: a start of purerl evolve, zoo/NAME, or an evolution's folder"
    )


def wrap(make: MakeTrainer, options: ObjectiveOptions) -> MakeTrainer:
    """Wrap a maker of trainers: use the objective in the algorithm."""
    name = options.objective

    def make_learner(algorithm: AlgorithmFactory, env: Environment, config: Config) -> Trainer:
        if name == "none":
            return make(algorithm, env, config)
        entry, objective = objective_file.load(name)
        _check(algorithm, config, name, entry)
        learner: Any = partial(algorithm, **{entry.argument: objective})
        return make(learner, env, config)

    return make_learner


def keeps(options: ObjectiveOptions) -> dict[str, bytes]:
    """Return the objective's file, which the job's folder keeps."""
    return objective_file.copy(options.objective)


def prepare(options: ObjectiveOptions, run: Settings, env: Environment) -> ObjectiveOptions:
    """Return the options with the file that the job's folder keeps; an agent's file needs none, as it only acts."""
    if run.folder is None:
        return options
    if agent_file.find(run.folder):
        return ObjectiveOptions()
    kept = run.folder / objective_file.NAME
    return dataclasses.replace(options, objective=str(kept)) if kept.is_file() else options


def _check(algorithm: AlgorithmFactory, config: Config, name: str, entry: ObjectiveEntry) -> None:
    """Reject an objective that is not part of an algorithm, and one that leaves it without a rule."""
    given, known = registry.name_of(config), registry.named(algorithm)
    what = f"objective '{name}' is the {entry.argument} of {entry.algorithm}"
    if entry.argument not in inspect.signature(algorithm).parameters:
        raise InputError(f"{what}; {given} has no {entry.argument}")
    if entry.argument == "rule" and known not in ("", entry.algorithm):
        raise InputError(f"{what}; {known} learns by a rule of its own")
    if known in FOLLOWERS and entry.algorithm != known:
        objective_file.check_rule(known, algorithm, f"{what}; give a rule, such as zoo/{known}")


EXTENSION = Extension(
    name="objectives",
    options=ObjectiveOptions,
    wrap=wrap,
    excludes=("groups", "self_play"),
    prepare=prepare,
    keeps=keeps,
)
