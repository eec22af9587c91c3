"""Cost of a step as one size of a training run doubles eight times: time and memory of an update's program.

`python -m benchmarks costs` measures; `python -m benchmarks.costs REPORT PICTURE` plots the figures of a report.
"""

import statistics
from pathlib import Path
from typing import Any, NamedTuple

import click
import jax

import purerl
from benchmarks import report, tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import progress, seconds_of
from purerl import registry
from purerl.commands.cli import main
from purerl.devices.memory import needed
from purerl.errors import InputError
from purerl.prng import convert
from purerl.reporting import plot
from purerl.training import make_trainer
from purerl.xla import backend

DOUBLINGS = 8
ENOUGH = 0.3  # seconds of updates, after which no more are timed
LEAST = 5  # updates that are timed
COLUMNS = tables.columns(
    "size: text; of it: count; environment step, ns: number; against half: ratio; an agent's step, ns: number; "
    "memory: bytes; against half: ratio"
)
SMALL = {"num_envs": 8, "rollout_length": 32, "hidden_sizes": (64, 64)}
REPLAY = {"num_envs": 8, "hidden_sizes": (64, 64), "batch_size": 128, "learning_starts": 256}


class Axis(NamedTuple):
    """A size that doubles from `first` on, where the others stay."""

    name: str
    first: int
    algorithm: str = "ppo"
    environment: str = "CartPole-v1"
    settings: dict[str, Any] = SMALL
    setting: str = ""  # setting of the algorithm
    parameter: str = ""  # parameter of the environment: its number of agents; neither: the number of seeds doubles


AXES = (
    Axis(name="environments", first=8, setting="num_envs"),
    Axis(name="seeds", first=1),
    Axis(name="agents", first=4, environment="TagContinuous", parameter="num_runners"),
    Axis(name="units of two layers", first=8, setting="hidden_sizes"),
    Axis(name="steps of a rollout", first=8, setting="rollout_length"),
    Axis(name="steps in the replay", first=1024, algorithm="dqn", settings=REPLAY, setting="replay_capacity"),
)


class Cost(NamedTuple):
    """What an update's program costs."""

    seconds: float  # per environment step of one seed
    bytes: int


def measure(request: Request) -> list[Table]:
    """Return the costs along each size."""
    rows: list[list[Any]] = []
    doublings = DOUBLINGS if request.size >= 1 else 2
    for axis in AXES:
        before: Cost | None = None
        for doubling in range(doublings + 1):
            count = axis.first * 2**doubling
            cost = cost_of(axis, count)
            each = cost.seconds / count if axis.parameter else None
            against = (cost.seconds / before.seconds, cost.bytes / before.bytes) if before else (None, None)
            rows.append([axis.name, count, cost.seconds * 1e9, against[0], each and each * 1e9, cost.bytes, against[1]])
            progress(f"{axis.name}, {count:,}: {cost.seconds * 1e9:,.0f} ns a step, {cost.bytes / 1e6:,.2f} MB")
            before = cost
    return [Table(title="An update as one size doubles, the others small", columns=COLUMNS, rows=rows)]


def cost_of(axis: Axis, count: int) -> Cost:
    """Return the costs where the axis has a size of `count`."""
    factory, cls = registry.algorithm(axis.algorithm)
    changes = {axis.setting: (count, count) if axis.setting == "hidden_sizes" else count} if axis.setting else {}
    parameters = {axis.parameter: count} if axis.parameter else {}
    config = cls(**(axis.settings | changes), total_timesteps=2**40)
    env = purerl.make(axis.environment, **parameters)
    trainer = make_trainer(factory, env, config)
    seeds = 1 if changes or parameters else count
    keys = jax.random.split(convert(jax.random.key(0), config.prng), seeds)
    state = jax.jit(jax.vmap(trainer.init))(keys)
    step = backend.jit(jax.vmap(trainer.step), graphs=True, donate_argnums=0)
    program = step.lower(state).compile()

    def update() -> Any:
        nonlocal state
        state, metrics = program(state)
        return metrics, state

    for _ in range(max(2, 2 * REPLAY["learning_starts"] // config.steps_per_update)):  # a replay is learned from then
        update()
    seconds: list[float] = []
    while sum(seconds) < ENOUGH or len(seconds) < LEAST:
        seconds.append(seconds_of(update))
    return Cost(statistics.median(seconds) / config.steps_per_update / seeds, needed(program))


def draw(table: Table, path: Path) -> None:
    """Draw time and memory along each size, a panel for each, both axes by factors of two."""
    names = list(dict.fromkeys(row[0] for row in table.rows))
    figure = plot.new_figure(2.6 * len(names), 5.2)
    panels = figure.subplots(2, len(names), squeeze=False, sharey="row")
    for column, name in enumerate(names):
        rows = [row for row in table.rows if row[0] == name]
        counts = [row[1] for row in rows]
        for panel, values in zip(panels[:, column], ([r[2] for r in rows], [r[5] / 1e6 for r in rows]), strict=True):
            panel.plot(counts, values, marker="o", markersize=3, color="tab:blue")
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            plot.tidy(panel)
        panels[1, column].set_xlabel(name)
    panels[0, 0].set_ylabel("environment step, ns")
    panels[1, 0].set_ylabel("program, MB")
    plot.save(figure, path)


@click.command(name="costs")
@click.argument("file", metavar="REPORT", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("picture", type=click.Path(path_type=Path))
def command(file: Path, picture: Path) -> None:
    """Draw the costs that REPORT holds, a results/benchmark-MACHINE.json, as PICTURE, a PNG file."""
    groups = report.read(file)
    if "costs" not in groups:
        raise InputError(f"{file} has no group costs: python -m benchmarks costs measures it")
    draw(tables.from_json(groups["costs"]["tables"][0]), picture)


if __name__ == "__main__":
    main(command=command, name="python -m benchmarks.costs")
