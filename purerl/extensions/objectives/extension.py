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


def keeps(options: ObjectiveOptions, run: Settings) -> dict[str, bytes]:
    """Return the objective's file, which the job's folder keeps."""
    content = objective_file.content_of(_kept(options, run).objective)
    return {} if content is None else {objective_file.kept_name(options.objective): content}


def prepare(options: ObjectiveOptions, run: Settings, env: Environment) -> ObjectiveOptions:
    """Return the options with the file that the job's folder keeps; an agent's file needs none, as it only acts."""
    if run.folder and agent_file.find(run.folder):
        return ObjectiveOptions()
    options = _kept(options, run)
    if run.folder is None and options.objective != "none":
        _check_unused(options.objective, run)
    return options


def _kept(options: ObjectiveOptions, run: Settings) -> ObjectiveOptions:
    """Return the options with the file that is kept in the job's folder, or next to the settings that name it."""
    file = None if "objective" in run.given else run.source
    name, folders = objective_file.kept_name(options.objective), (run.folder, file.parent if file else None)
    kept = [folder / name for folder in folders if folder is not None]
    found = next((path for path in kept if path.is_file()), None)
    return options if found is None else dataclasses.replace(options, objective=str(found))


def _check_unused(name: str, run: Settings) -> None:
    """Reject settings that the user gave, or numbers that the agent tunes, if the objective replaces them."""
    tuned = getattr(run.extension_options.get("self_tuning"), "self_tune", ())
    objective_file.check_unused(name, objective_file.load(name).entry, (*run.given, *tuned))


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
