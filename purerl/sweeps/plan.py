"""The plan of a sweep: validates it, and groups its trials by shape, before anything is compiled or written."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from purerl.devices import memory, selection
from purerl.devices.sharding import make_mesh
from purerl.errors import InputError, unknown
from purerl.host_environment import HostSource, not_inside_jit
from purerl.loop.extension import MakeFromSetup, Setup, may_change, with_values
from purerl.loop.population import AXIS, RETURN
from purerl.loop.train import curve_points, whole_updates
from purerl.run.plan import Made, made
from purerl.run.program import as_leaf
from purerl.settings import ranges, toml
from purerl.settings.extensions import owner_of
from purerl.settings.options import DESIGNS, SearchOptions, checked, make_options
from purerl.settings.runs import Settings, sections, settings
from purerl.settings.values import to_text
from purerl.sweeps import design


class ShapeGroup(NamedTuple):
    """Trials of the same shape, which one compiled program trains."""

    members: np.ndarray  # i64[n], indices of the trials
    setup: Setup  # setup of the first one
    values: dict[str, np.ndarray]  # [n] each, the numbers in which they differ
    num_updates: int
    shapes: dict[str, Any]  # the values, by name, that other groups do not share

    def argument(self) -> Setup:
        """Return the setup as an argument of a compiled program."""
        return jax.tree.map(as_leaf, self.setup)


class SweepPlan(NamedTuple):
    """The complete description of a sweep before anything is compiled or written."""

    settings: Settings  # settings of the runs, without the searched ones
    setup: Setup
    make: MakeFromSetup  # makes the trainer of a member
    options: SearchOptions
    dimensions: dict[str, ranges.Dimension]
    trials: list[dict[str, Any]]  # the values of each by name, in order
    groups: list[ShapeGroup]
    mesh: Mesh  # mesh of the devices that share the agents

    @property
    def num_points(self) -> int:
        """The number of points of each curve."""
        wanted = self.options.generations if self.options.method == "pbt" else self.options.points
        return min(wanted, *(group.num_updates for group in self.groups))

    @property
    def measure(self) -> str:
        """The measure by which trials are compared, as named in tables and pictures."""
        return "return" if self.options.metric == RETURN else self.options.metric.removeprefix("-")

    @property
    def sign(self) -> float:
        """1, or -1 if lower is better: scores and curves are this sign times the metric."""
        return -1.0 if self.options.metric[0] == "-" else 1.0

    @property
    def seeds(self) -> np.ndarray:
        """u32[seeds]."""
        first = self.settings.options.seed
        return np.arange(first, first + self.settings.options.seeds, dtype=np.uint32)

    def spans(self, group: ShapeGroup) -> np.ndarray:
        """Return i64[points], the updates from one point of a curve to the next."""
        return np.diff(curve_points(group.num_updates, self.num_points), prepend=0)

    def env_steps(self) -> np.ndarray:
        """Return i64[trials, points], the environment steps at the points of each trial's curves."""
        steps = np.zeros((len(self.trials), self.num_points), np.int64)
        for group in self.groups:
            steps[group.members] = np.cumsum(self.spans(group)) * group.setup.config.steps_per_update
        return steps

    def kept_files(self) -> dict[str, bytes]:
        """Return {name: content} of the files that the sweep's folder keeps: those of each trial."""
        run = self.settings
        files = run.kept_files()
        for name, dimension in self.dimensions.items():
            row = owner_of(run.extensions, name)
            if row is not None and isinstance(dimension, ranges.Choices):
                for value in dimension.values:
                    files |= row.keeps(dataclasses.replace(run.options_of(row), **{name: value}), run)
        return files

    def ladder(self) -> tuple[int, list[int]]:
        """Return (updates from one point to the next, `rungs`) of successive halving."""
        num_updates = self.groups[0].num_updates
        span = math.ceil(num_updates / self.options.points)
        return span, rungs(num_updates // span, self.options.eta, self.options.rungs)


def rungs(points: int, eta: int, count: int) -> list[int]:
    """Return the points of the curves at which trials are compared, ascending, ending with the last point."""
    found = [round(points / eta**i) for i in reversed(range(count))]
    if found[0] < 1 or len(set(found)) < count:
        raise InputError(
            f"{count} rungs with eta {eta} need at least {eta ** (count - 1)} points of at least an update each; "
            f"there are {points}"
        )
    return found


def make_sweep_plan(run: Settings, options: SearchOptions, over: Mapping[str, object]) -> SweepPlan:
    """Return the plan of a sweep."""
    checked(options)
    _check_size(run, options, len(over))
    mesh = _mesh(run, options)
    every = dataclasses.replace(run, given=(*run.given, *over))
    found = made(every)
    if isinstance(found.env, HostSource):
        raise not_inside_jit(found.env, "a sweep")
    _check_extensions(over, run, found)
    dimensions = ranges.bind(over, found.setup)
    method = options.method if options.method in DESIGNS else "random"
    trials = design.trials(dimensions, method, options.trials, run.options.seed)
    groups = _groups(every, found, trials)
    if options.method in ("halving", "pbt") and len(groups) > 1:
        raise InputError(
            f"{options.method} searches numbers only, and {', '.join(groups[0].shapes)} are shapes: use random"
        )
    _check_metric(options.metric, found.make(groups[0].setup))
    plan = SweepPlan(
        settings=run,
        setup=found.setup,
        make=found.make,
        options=options,
        dimensions=dimensions,
        trials=trials,
        groups=groups,
        mesh=mesh,
    )
    if options.method == "halving":
        plan.ladder()  # refuses too few points
    if options.method == "pbt":
        _check_population(plan)
    return plan


def _check_extensions(over: Iterable[str], run: Settings, found: Made) -> None:
    """Reject a search over the option that turns an extension on, unless each trial uses the extension."""
    for name in over:
        row = owner_of(run.extensions, name)
        if row is not None and row not in found.extensions:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{name} turns the extension {row.name} on: to search over it, also give {flag} a value")


def _check_size(run: Settings, options: SearchOptions, dimensions: int) -> None:
    """Reject trials and curves that do not fit in memory, before they are created."""
    agents, points = options.trials * run.options.seeds, max(options.points, options.generations)
    taken, free = 8 * agents * points + 200 * options.trials * dimensions, memory.host_free()
    if taken > free:
        raise InputError(
            f"the curves of {options.trials:,} trials x {run.options.seeds:,} seeds take {taken / 1e9:,.1f} GB, "
            f"and {free / 1e9:,.1f} GB are free"
        )


def _mesh(run: Settings, options: SearchOptions) -> Mesh:
    if run.options.mesh:
        raise InputError(f"mesh is {','.join(run.options.mesh)}; a sweep spreads its agents over all of its --devices")
    count = selection.take(run.options.devices, options.trials * run.options.seeds)
    return make_mesh(count, {AXIS: count})


def _check_metric(metric: str, trainer: Any) -> None:
    """Raise an `InputError` if updates do not report a metric."""
    if metric != RETURN:
        state = jax.eval_shape(trainer.init, jax.random.key(0))
        names = jax.eval_shape(trainer.step, state)[1].flat()
        if metric.removeprefix("-") not in names:
            raise unknown("metric", metric.removeprefix("-"), names, limit=30)


def _check_population(plan: SweepPlan) -> None:
    listed = [name for name, dimension in plan.dimensions.items() if isinstance(dimension, ranges.Choices)]
    if listed:
        raise InputError(f"pbt changes numbers step by step: {listed[0]} must be a range, not a list")
    if plan.options.trials < 4:
        raise InputError(f"trials is {plan.options.trials}; pbt needs a population of at least 4")
    if plan.groups[0].num_updates < plan.options.generations:
        raise InputError(
            f"generations is {plan.options.generations}; it must be at most the {plan.groups[0].num_updates} updates"
        )


def _groups(run: Settings, found: Made, trials: list[dict[str, object]]) -> list[ShapeGroup]:
    members: dict[Any, list[int]] = {}
    for i, values in enumerate(trials):
        members.setdefault(jax.tree.structure(with_values(found.setup, values)), []).append(i)
    groups = []
    for index in members.values():
        first = trials[index[0]]
        numbers = {name: value for name, value in first.items() if _is_number(name, value, found.setup)}
        shapes = {name: value for name, value in first.items() if name not in numbers}
        own = with_values(_with_shapes(run, found, shapes), numbers)
        if not found.make(own).pure:  # it also refuses what cannot be, while the numbers are still numbers
            raise InputError("a sweep needs a compiled loop, and these settings step environments in Python")
        groups.append(
            ShapeGroup(
                members=np.array(index),
                setup=own,
                values={name: _column([trials[i][name] for i in index]) for name in numbers},
                num_updates=whole_updates(own.config),
                shapes=shapes,
            )
        )
    return groups


def _with_shapes(run: Settings, found: Made, shapes: Mapping[str, object]) -> Setup:
    """Return the setup with these values, and the options prepared to which they belong, such as a file's name."""
    setup = with_values(found.setup, shapes)
    prepared = {}
    for row in found.extensions:
        own = {name: value for name, value in shapes.items() if owner_of(found.extensions, name) is row}
        if own:
            prepared[row.name] = row.prepare(dataclasses.replace(run.options_of(row), **own), run, found.env)
    return setup._replace(options={**setup.options, **prepared})


def _is_number(name: str, value: object, setup: Setup) -> bool:
    return may_change(setup, name) and value is not None


def _column(values: list[object]) -> np.ndarray:
    whole = all(isinstance(value, int) and abs(value) < 2**31 for value in values)
    return np.array(values, np.int32 if whole else np.float32)


def description(plan: SweepPlan) -> list[str]:
    """Return the lines to show before the sweep: the numbers of trials and of programs."""
    num, seeds = len(plan.trials), plan.settings.options.seeds
    steps = int(plan.settings.config.total_timesteps)
    lines = [f"{num} trials x {seeds} seeds of {steps:,} steps, in {_count(len(plan.groups), 'program')}"]
    if len(plan.groups) > 1:
        for group in plan.groups:
            shapes = ", ".join(f"{name} {to_text(value)}" for name, value in group.shapes.items())
            lines.append(f"  {len(group.members)} with {shapes}")
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def dump_sweep(plan: SweepPlan) -> str:
    """Return a sweep's complete sweep.toml."""
    runs = sections(plan.settings, plan.setup.env)
    over = {name: str(dimension) for name, dimension in plan.dimensions.items()}
    return toml.text(
        "Resume it with: purerl sweep --resume THIS_FOLDER", {**runs, "[search]": plan.options, "[over]": over}
    )


def saved_plan(folder: Path, fresh_seeds: int | None = None, **replaced: object) -> SweepPlan:
    """Return the plan of a sweep's folder."""
    table, file = toml.read_folder(folder, toml.SWEEP, "search", "over"), folder / toml.SWEEP.file
    with toml.told_of(file):
        over = dict(ranges.parse(f"{name}={wanted}") for name, wanted in toml.table(table, "over", file).items())
        options = make_options(SearchOptions, table["search"], str(file))
    if fresh_seeds is not None:
        options = make_options(SearchOptions, vars(options) | {"fresh_seeds": fresh_seeds})
    run = dataclasses.replace(settings(None, None, replaced, {}, file), folder=folder)
    return make_sweep_plan(run, options, over)
