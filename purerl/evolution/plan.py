"""An evolution before it runs: everything that can be refused is refused here, before anything is compiled or written.

Its file, evolve.toml, holds what was asked for and, per task, the complete config and environment. Of an evolution that
was called from Python it holds the options, and python.json the rest.
"""

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from purerl import __version__, registry
from purerl.devices.selection import take
from purerl.devices.sharding import make_mesh
from purerl.errors import InputError, unknown
from purerl.evolution.generations import FITNESS, SHAPING, Evolution, flatten, make_evolution
from purerl.evolution.inner_loop import Learner, Plug, Task
from purerl.evolution.strategies import SNES, Evosax, OpenES
from purerl.run import named
from purerl.run.config import FORMAT, check_format, checked, coerce, environment_class, fields, hints, option, read_toml
from purerl.run.config import settings as make_settings
from purerl.run.plan import make_environment
from purerl.sweeps import search
from purerl.sweeps.search import Range
from purerl.types import Key, PyTree

FILE = "evolve.toml"
LIFETIME = 16_384  # environment steps, unless said otherwise


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvolveOptions:
    """How an evolution goes."""

    population: int = option(64, "candidates per generation", at_least=2)
    generations: int = option(100, "how many", at_least=1)
    seeds: int = option(1, "trainings per candidate and task", at_least=1)
    seed: int = option(0, "of the evolution: it draws where the search starts, candidates and trainings")
    strategy: str = option("openes", "openes, snes, or an algorithm of evosax such as evosax:CMA_ES", None)
    sigma: float = option(0.04, "standard deviation of the first candidates")
    sigma_decay: float = option(0.999, "its factor per generation (openes)")
    meta_learning_rate: float = option(0.01, "of openes, whose optimizer is Adam")
    antithetic: bool = option(True, "draw candidates in pairs")
    fitness: str = option("auc", "auc, final or wins: how well a training went", None)
    shaping: str = option("zscore", "zscore or rank: how a task's fitness is normalized over the population", None)
    fresh: bool = option(False, "random numbers of its own for each candidate, instead of common ones")
    minutes: float = option(0.0, "stop after so many minutes, compilation included; 0: after all generations")
    chunk: int = option(0, "trainings side by side on a device; 0: as many as serve speed and memory")
    devices: int | str = option("auto", "devices that share the trainings; auto: all, on a CPU one per core", None)
    checkpoint_generations: int = option(10, "generations between two checkpoints", at_least=1)
    keep_checkpoints: int = option(3, "checkpoints kept, the newest ones", at_least=1)
    frames: int = option(40, "generations whose center is kept, to draw how it changed", at_least=2)


class Redraw(NamedTuple):
    """Environment fields drawn anew for each lifetime: (key, env) -> env."""

    ranges: dict[str, Range]

    def __call__(self, key: Key, env: Any) -> Any:
        """Draw."""
        keys = jax.random.split(key, len(self.ranges))
        drawn = {name: self._one(keys[i], over) for i, (name, over) in enumerate(self.ranges.items())}
        return dataclasses.replace(env, **drawn)

    def _one(self, key: Key, over: Range) -> Any:
        if over.whole:
            return jax.random.randint(key, (), int(over.low), int(over.high) + 1)
        low, high = jnp.log(jnp.array([over.low, over.high])) if over.log else jnp.array([over.low, over.high])
        value = jax.random.uniform(key, minval=low, maxval=high)
        return jnp.exp(value) if over.log else value


class EvolvePlan(NamedTuple):
    """An evolution before anything is compiled or written."""

    name: str  # of what is evolved
    options: EvolveOptions
    candidate: PyTree  # where it starts
    learner: Learner
    tasks: tuple[Task, ...]
    strategy: Any
    text: str  # of its file
    mesh: Mesh  # of the devices that share the trainings
    algorithm: str = "ppo"  # that it is a part of

    def evolution(self, chunk: int | None, mesh: Mesh | None = None, checked: bool = True) -> Evolution:
        """Return it as pure functions; arguments as for `make_evolution`."""
        o = self.options
        settings = {
            "seeds": o.seeds,
            "fitness": o.fitness,
            "shaping": o.shaping,
            "common": not o.fresh,
            "checked": checked,
        }
        return make_evolution(
            self.candidate, self.learner, self.tasks, self.strategy, chunk=chunk, mesh=mesh, **settings
        )

    @property
    def lifetimes(self) -> int:
        """Trainings in all."""
        return self.options.population * self.options.generations * self.options.seeds * len(self.tasks)

    @property
    def env_steps(self) -> int:
        """Environment steps of a generation."""
        return self.options.population * self.options.seeds * sum(task.total_timesteps for task in self.tasks)


def make_plan(
    objective: str,
    tasks: Sequence[str],
    options: EvolveOptions,
    flags: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> EvolvePlan:
    """Return the plan of an evolution by names.

    Args:
      objective: a name of `registry.OBJECTIVES`, or module:function with (key) -> objective.
      tasks: environments.
      options: how it goes.
      flags: fields of the algorithm's config, of every task; total_timesteps is the length of a training.
      parameters: fields of the environments that have them; a text LOW:HIGH is drawn anew for each training.

    Raises:
      InputError: if it is not possible.
    """
    entry = registry.objective(objective)
    flags = {"total_timesteps": LIFETIME} | dict(flags or {})
    own = share_parameters(tasks, parameters or {})
    return _plan(objective, entry, {name: (flags, own[name]) for name in tasks}, options)


def sort_options(values: Mapping[str, Any]) -> tuple[EvolveOptions, dict[str, Any]]:
    """Return (options, what is left for the algorithm's config) of values by name.

    Raises:
      InputError: if an option has a value of a wrong type.
    """
    known = hints(EvolveOptions)
    own = {name: coerce(value, known[name], name) for name, value in values.items() if name in known}
    return EvolveOptions(**own), {name: value for name, value in values.items() if name not in known}


def share_parameters(tasks: Sequence[str], parameters: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Give each task the parameters that its environment has.

    Raises:
      InputError: for one that none has.
    """
    classes = {name: environment_class(name) for name in tasks}
    known = {
        name: hints(cls) if cls is not None and dataclasses.is_dataclass(cls) else None for name, cls in classes.items()
    }
    for parameter in parameters:
        having = [name for name in tasks if (fields := known[name]) is None or parameter in fields]
        if not having:
            allowed = {field for fields in known.values() for field in fields or ()}
            raise unknown(f"parameter of {' and '.join(tasks)}", parameter, allowed)
    has = lambda name, parameter: (fields := known[name]) is None or parameter in fields
    return {name: {key: value for key, value in parameters.items() if has(name, key)} for name in tasks}


def make_task(algorithm: str, name: str, flags: Mapping[str, Any], parameters: Mapping[str, Any]) -> Task:
    """Return a task by name; arguments as for `make_plan`."""
    ranges = {key: value for key, value in parameters.items() if isinstance(value, str) and ":" in value}
    fixed = {key: value for key, value in parameters.items() if key not in ranges}
    run = make_settings(algorithm, name, flags, fixed)
    env = make_environment(name, run.parameters)
    over = {key: search.parse(f"env.{key}={text}")[1] for key, text in ranges.items()}
    over = search.bind({f"env.{key}": value for key, value in over.items()}, run.config, env) if over else {}
    redraw = (
        Redraw({key.removeprefix("env."): value for key, value in over.items() if isinstance(value, Range)})
        if over
        else None
    )
    return Task(name, env, run.config, int(run.config.total_timesteps), redraw)


def python_plan(
    options: EvolveOptions, candidate: PyTree, learner: Learner, tasks: Sequence[Task], strategy: Any = None
) -> EvolvePlan:
    """Return the plan of an evolution by its parts, which are those of `purerl.evolve`.

    Raises:
      InputError: if it is not possible.
    """
    checked(options)
    mesh = choose_mesh(options)
    strategy = make_strategy(options, candidate) if strategy is None else strategy
    options = dataclasses.replace(options, population=strategy.population)
    name, configs = type(candidate).__name__, {entry.config: name for name, entry in registry.ALGORITHMS.items()}
    algorithm = configs.get(_path(type(tasks[0].config)), "") if tasks else ""
    text = _head(name, options)
    plan = EvolvePlan(name, options, candidate, learner, tuple(tasks), strategy, text, mesh, algorithm)
    plan.evolution(1, checked=False)  # refuses what cannot be
    return plan


def _path(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def choose_mesh(options: EvolveOptions) -> Mesh:
    """Return the devices that the options ask for; to be called before JAX is used.

    Raises:
      InputError: if there are too few.
    """
    return make_mesh(take(options.devices, options.population * options.seeds))


def saved_plan(folder: Path, **replaced: Any) -> EvolvePlan:
    """Return the plan of an evolution's folder.

    Args:
      folder: of the evolution.
      replaced: fields of `EvolveOptions` to have other values.

    Raises:
      InputError: if it is no such folder.
    """
    if not (folder / FILE).is_file():
        raise InputError(f"there is no evolution in {folder}: it has no {FILE}")
    table = read_toml(folder / FILE)
    check_format(table, str(folder / FILE))
    if not {"objective", "evolution"} <= table.keys():
        raise InputError(f"{folder / FILE} is not complete: it has no objective or evolution")
    options, left = sort_options(table["evolution"])
    for name in left:
        raise unknown(f"setting in {folder / FILE}", name, hints(EvolveOptions))
    options = dataclasses.replace(options, **replaced)
    if "task" not in table:
        return python_plan(options, **named.read(folder / named.FILE))
    runs = {
        name: ({k: v for k, v in own.items() if k != "env"}, own.get("env", {})) for name, own in table["task"].items()
    }
    return _plan(table["objective"], registry.objective(table["objective"]), runs, options)


def _plan(
    objective: str,
    entry: registry.ObjectiveEntry,
    runs: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]],
    options: EvolveOptions,
) -> EvolvePlan:
    checked(options)
    mesh = choose_mesh(options)
    tasks = tuple(make_task(entry.algorithm, name, flags, parameters) for name, (flags, parameters) in runs.items())
    start = registry.load(entry.start)
    candidate = start(jax.random.key(options.seed))
    factory, _ = registry.algorithm(entry.algorithm)
    learner = Plug(factory, entry.argument)
    text = _dump(objective, options, tasks, {name: parameters for name, (_, parameters) in runs.items()})
    strategy = make_strategy(options, candidate)
    plan = EvolvePlan(objective, options, candidate, learner, tasks, strategy, text, mesh, entry.algorithm)
    plan.evolution(1, checked=False)  # refuses what cannot be
    return plan


def make_strategy(options: EvolveOptions, candidate: PyTree) -> Any:
    """Return the strategy that the options name.

    Raises:
      InputError: if there is none of that name, or evosax is not installed.
    """
    for name, value, allowed in (("fitness", options.fitness, FITNESS), ("shaping", options.shaping, SHAPING)):
        if value not in allowed:
            raise unknown(name, value, allowed)
    common: dict[str, Any] = {
        "population": options.population, "antithetic": options.antithetic, "start_sigma": options.sigma
    }  # fmt: skip
    if options.strategy == "openes":
        return OpenES(learning_rate=options.meta_learning_rate, sigma_decay=options.sigma_decay, **common)
    if options.strategy == "snes":
        return SNES(**common)
    if not options.strategy.startswith("evosax:"):
        raise unknown("strategy", options.strategy, ("openes", "snes", "evosax:NAME"))
    try:
        algorithms = importlib.import_module("evosax.algorithms")
    except ModuleNotFoundError:
        raise InputError("evosax is not installed: pip install 'purerl[evosax]'") from None
    name = options.strategy.removeprefix("evosax:")
    if not hasattr(algorithms, name):
        raise unknown("algorithm of evosax", name, [n for n in dir(algorithms) if n[:1].isupper()])
    vector, _ = flatten(candidate)
    strategy = getattr(algorithms, name)(population_size=options.population, solution=jnp.zeros(vector.size))
    params = strategy.default_params
    return Evosax(
        strategy=strategy, parameters=params.replace(std_init=options.sigma) if hasattr(params, "std_init") else params
    )


def _head(objective: str, options: EvolveOptions) -> str:
    lines = [
        "# purerl evolve --resume THIS_FOLDER goes on with it",
        *fields({"format": FORMAT, "version": __version__, "objective": objective}),
        "",
        "[evolution]",
        *fields(options),
    ]
    return "\n".join(lines) + "\n"


def _dump(objective: str, options: EvolveOptions, tasks: Sequence[Task], parameters: Mapping[str, Any]) -> str:
    lines = []
    for task in tasks:
        lines += ["", f'[task."{task.name}"]', *fields(task.config), f'[task."{task.name}".env]']
        own = fields(task.env) if dataclasses.is_dataclass(task.env) else []
        ranges = {
            name: str(over) for name, over in (task.redraw.ranges if isinstance(task.redraw, Redraw) else {}).items()
        }
        kept = [line for line in own if line.split(" ")[0] not in ranges]
        lines += kept or fields({k: v for k, v in parameters[task.name].items() if k not in ranges})
        lines += fields(ranges)
    return _head(objective, options) + "\n".join(lines) + "\n"
