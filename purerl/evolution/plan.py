"""The plan of an evolution: validates it before anything is compiled or written.

Its file, evolve.toml, holds the options and, per task, the complete config and environment. For an evolution that was
made from Python objects it holds only the options.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from purerl import registry, trust
from purerl.catalog.objectives import ObjectiveEntry
from purerl.devices import memory
from purerl.devices.selection import take
from purerl.devices.sharding import make_mesh
from purerl.errors import InputError, check_arguments, hints
from purerl.evolution.generations import make_evolution
from purerl.evolution.inner_loop import Learner, Plug, Task
from purerl.evolution.meta_gradient import make_meta_gradient
from purerl.evolution.method import Method, check_kinds, flatten
from purerl.evolution.strategies import check_strategy, make_strategy
from purerl.evolution.tasks import RedrawFields, make_task, share_parameters
from purerl.settings import objective_file, toml
from purerl.settings.options import EvolveOptions, checked, make_options
from purerl.types import PyTree

OWN_OPTIONS = {  # those that the other method does not have
    "evolution": (
        *("seeds", "strategy", "sigma", "sigma_decay", "antithetic"),
        *("fitness", "shaping", "across_tasks", "weight_decay", "fresh"),
    ),
    "meta-gradient": ("inner_updates", "meta_entropy_coefficient"),
}
LIFETIME = 16_384  # environment steps, unless configured otherwise


class EvolvePlan(NamedTuple):
    """The complete description of an evolution before anything is compiled or written."""

    name: str  # name of what is evolved
    options: EvolveOptions
    candidate: PyTree  # start of the search
    learner: Learner
    tasks: tuple[Task, ...]
    strategy: Any  # None for meta-gradients
    text: str  # content of its file
    mesh: Mesh  # mesh of the devices that share the training runs
    algorithm: str  # the algorithm that the candidate is a part of
    from_python: bool  # whether its file does not describe it completely

    def method(self, chunk: int | None, mesh: Mesh | None = None, checked: bool = True) -> Method:
        """Return the method as pure functions; arguments as for `make_evolution` and `make_meta_gradient`."""
        o = self.options
        if o.method == "meta-gradient":
            return make_meta_gradient(
                self.candidate,
                self.learner,
                self.tasks,
                population=o.population,
                inner_updates=o.inner_updates,
                learning_rate=o.meta_learning_rate,
                entropy_coefficient=o.meta_entropy_coefficient,
                chunk=chunk,
                mesh=mesh,
                checked=checked,
            )
        return make_evolution(
            self.candidate,
            self.learner,
            self.tasks,
            self.strategy,
            seeds=o.seeds,
            fitness=o.fitness,
            shaping=o.shaping,
            across_tasks=o.across_tasks,
            weight_decay=o.weight_decay,
            common=not o.fresh,
            chunk=chunk,
            mesh=mesh,
            checked=checked,
        )

    def num_training_runs(self, generations: int) -> int:
        """Return the number of training runs in these generations; agents that are reset count by their steps."""
        steps = sum(task.total_timesteps for task in self.tasks)  # steps of a run on each task
        return -(-generations * self.env_steps * len(self.tasks) // steps)

    @property
    def env_steps(self) -> int:
        """The environment steps of a generation."""
        if self.options.method == "meta-gradient":
            rollouts = self.options.population * (self.options.inner_updates + 1)
            return rollouts * sum(task.config.steps_per_update for task in self.tasks)
        return self.options.population * self.options.seeds * sum(task.total_timesteps for task in self.tasks)


def make_plan(
    objective: str,
    tasks: Sequence[str],
    options: EvolveOptions,
    flags: Mapping[str, object] | None = None,
    parameters: Mapping[str, object] | None = None,
) -> EvolvePlan:
    """Return the plan of an evolution given by names.

    Args:
      objective: a name of `purerl.catalog.objectives.OBJECTIVES`, or module:function with (key) -> objective.
      tasks: environments.
      options: the settings of the evolution.
      flags: fields of the algorithm's config, for every task; total_timesteps is the length of a training run.
      parameters: fields of the environments that have them; a text LOW:HIGH is resampled for each training run.

    Raises:
      InputError: if the objective replaces one of the flags, among other reasons.
    """
    entry = registry.objective(objective)
    objective_file.check_unused(objective, entry, flags or {})
    flags = {"total_timesteps": LIFETIME} | dict(flags or {})
    shared = share_parameters(tasks, parameters or {})
    runs = {name: (flags, shared[name]) for name in tasks}
    return _plan(objective, entry, runs, _tasks(entry, runs), options)


def sort_options(values: Mapping[str, object]) -> tuple[EvolveOptions, dict[str, Any]]:
    """Split {name: value} into (options, values for the algorithm's config)."""
    known = hints(EvolveOptions)
    options = {name: value for name, value in values.items() if name in known}
    return make_options(EvolveOptions, options), {name: value for name, value in values.items() if name not in known}


def python_plan(
    options: EvolveOptions, candidate: PyTree, learner: Learner, tasks: Sequence[Task], strategy: Any = None
) -> EvolvePlan:
    """Return the plan of an evolution of Python objects, with the arguments of `purerl.evolve`."""
    check_kinds(learner, tasks)
    _check_method(options, strategy)
    mesh = choose_mesh(options)
    if strategy is None:
        strategy = _strategy(options, candidate)
    else:
        check_strategy(strategy)
    if strategy is not None:
        options = dataclasses.replace(options, population=strategy.population)
    name, algorithm = type(candidate).__name__, registry.name_of_known(tasks[0].config) if tasks else ""
    plan = EvolvePlan(
        name=name,
        options=options,
        candidate=candidate,
        learner=learner,
        tasks=tuple(tasks),
        strategy=strategy,
        text=_text({"objective": name, "from_python": True}, options),
        mesh=mesh,
        algorithm=algorithm,
        from_python=True,
    )
    plan.method(1, checked=False)  # refuses what cannot be
    return plan


def choose_mesh(options: EvolveOptions) -> Mesh:
    """Return the mesh of the configured devices; call this before JAX is used."""
    return make_mesh(take(options.devices, options.population * options.seeds))


def saved_plan(folder: Path, **replaced: object) -> EvolvePlan:
    """Return the plan of an evolution's folder.

    Raises:
      InputError: if it is not such a folder, only Python can resume it, or it names a module that is not trusted.
    """
    table = toml.read_folder(folder, toml.EVOLUTION, "objective", "evolution", "task")
    file = folder / toml.EVOLUTION.file
    given, objective = toml.tables(table, "task", file), str(table["objective"])
    for name in (objective, *given):
        trust.checked(name, file)
    runs = {
        name: ({k: v for k, v in task.items() if k != "env"}, toml.table(task, "env", file))
        for name, task in given.items()
    }
    with toml.told_of(file):
        options = make_options(EvolveOptions, table["evolution"])
        entry = registry.objective(objective)
        tasks = _tasks(entry, runs)
    return _plan(objective, entry, runs, tasks, dataclasses.replace(options, **replaced))


def _tasks(
    entry: ObjectiveEntry, runs: Mapping[str, tuple[Mapping[str, object], Mapping[str, object]]]
) -> tuple[Task, ...]:
    return tuple(make_task(entry.algorithm, name, flags, parameters) for name, (flags, parameters) in runs.items())


def _plan(
    objective: str,
    entry: ObjectiveEntry,
    runs: Mapping[str, tuple[Mapping[str, object], Mapping[str, object]]],
    tasks: tuple[Task, ...],
    options: EvolveOptions,
) -> EvolvePlan:
    _check_method(options)
    mesh = choose_mesh(options)
    start = registry.load(entry.start)
    check_arguments(start, "objective", "key")
    candidate = start(jax.random.key(options.seed))
    _check_size(options, flatten(candidate)[0].size)
    factory, _ = registry.algorithm(entry.algorithm)
    plan = EvolvePlan(
        name=objective,
        options=options,
        candidate=candidate,
        learner=Plug(factory, entry.argument),
        tasks=tasks,
        strategy=_strategy(options, candidate),
        text=_text({"objective": objective}, options, tasks, {name: given for name, (_, given) in runs.items()}),
        mesh=mesh,
        algorithm=entry.algorithm,
        from_python=False,
    )
    plan.method(1, checked=False)  # refuses what cannot be
    return plan


def _strategy(options: EvolveOptions, candidate: PyTree) -> Any:
    """Return the strategy of an evolution; None for meta-gradients."""
    return make_strategy(options, flatten(candidate)[0].size) if options.method == "evolution" else None


def _check_method(options: EvolveOptions, strategy: Any = None) -> None:
    """Reject options that are out of range or that the method does not have.

    Raises:
      InputError: for the first of them.
    """
    checked(options)
    other = next(method for method in OWN_OPTIONS if method != options.method)
    for field in dataclasses.fields(options):
        if field.name in OWN_OPTIONS[other] and getattr(options, field.name) != field.default:
            raise InputError(f"{field.name} is an option of --method {other}; this is --method {options.method}")
    if strategy is not None and options.method != "evolution":
        raise InputError(f"a strategy is an option of --method evolution; this is --method {options.method}")


def _check_size(options: EvolveOptions, parameters: int) -> None:
    """Reject a population that does not fit in memory, before it is created."""
    taken = options.population * (12 * parameters + 16 * options.seeds) + 4 * options.frames * parameters
    free = memory.host_free()
    if taken > free:
        raise InputError(
            f"{options.population:,} candidates of {parameters:,} parameters, with {options.seeds:,} seeds each, take "
            f"{taken / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free"
        )


def _text(
    head: Mapping[str, object],
    options: EvolveOptions,
    tasks: Sequence[Task] = (),
    given: Mapping[str, Any] | None = None,
) -> str:
    """Return the text of evolve.toml; `given` holds the given parameters of each task's environment."""
    tables: dict[str, Any] = {}
    for task in tasks:
        drawn = task.redraw.ranges if isinstance(task.redraw, RedrawFields) else {}
        env = task.env if dataclasses.is_dataclass(task.env) else None
        values = {} if env is None else {field.name: getattr(env, field.name) for field in dataclasses.fields(env)}
        values = {name: value for name, value in values.items() if name not in drawn and toml.writable(value)}
        values = values or {name: value for name, value in (given or {})[task.name].items() if name not in drawn}
        tables[f'[task."{task.name}"]'] = task.config
        tables[f'[task."{task.name}".env]'] = values | {name: str(over) for name, over in drawn.items()}
    head = {"": head, "[evolution]": options}
    return toml.text("Resume it with: purerl evolve --resume THIS_FOLDER", head | tables)
