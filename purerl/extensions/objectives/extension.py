"""A discovered objective as an extension: `purerl train ppo CartPole-v1 --objective zoo/NAME`."""

import dataclasses
import inspect
from functools import partial
from typing import Any

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
        _check(algorithm, config, name, entry.algorithm, entry.argument)
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


def _check(algorithm: AlgorithmFactory, config: Config, name: str, owner: str, argument: str) -> None:
    """Reject an objective that is not part of an algorithm; a rule reads the predictions of its own algorithm only."""
    given = type(config).__name__.removesuffix("Config").lower()
    if argument == "rule" and {given, owner} == {"lpg", "disco"}:
        raise InputError(f"objective '{name}' is the rule of {owner}; {given} follows a rule of its own kind")
    if argument not in inspect.signature(algorithm).parameters:
        raise InputError(f"objective '{name}' is the {argument} of {owner}; {given} has no {argument}")


EXTENSION = Extension(
    name="objectives",
    options=ObjectiveOptions,
    wrap=wrap,
    excludes=("groups", "self_play"),
    prepare=prepare,
    keeps=keeps,
)
