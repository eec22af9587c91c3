"""Figures of many agents at once, about six minutes in all; they are kept in results/benchmark-MACHINE.json.

python -m benchmarks.scale                          all of them
python -m benchmarks.scale seeds halving            some
python -m benchmarks.scale --size 0.05 --out /tmp   to try it out
"""

import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import jax
import numpy as np
from rich.console import Console

import purerl
from benchmarks import report, tables
from benchmarks.tables import Table
from purerl import LogUniform, Uniform
from purerl.algos.ppo import PPOConfig, ppo
from purerl.devices import memory, sharding
from purerl.loop.population import AXIS, TOGETHER, blank, compile_in_place, place, train_lanes, with_values
from purerl.run.program import as_leaf
from purerl.settings.runs import settings
from purerl.sweeps.plan import SearchOptions, make_sweep_plan
from purerl.sweeps.sweep import Sweep, SweepResult

RATES = LogUniform(1e-4, 1e-2)
COMPILED: list[str] = []  # names of programs
ROLLOUT = 512  # environment steps of PPO's update


class Agents:
    """PPO agents on CartPole in one compiled program on one device, as a sweep trains them."""

    def __init__(self, count: int):
        """Compile for so many, which differ in their seed."""
        mesh = sharding.make_mesh(1, {AXIS: 1})
        self.config = PPOConfig()
        self.numbers = jax.tree.map(as_leaf, (self.config, purerl.make("CartPole-v1")))
        self.state = place(blank(ppo, count, {}, *self.numbers, axes=TOGETHER), mesh)
        self.seeds = sharding.place(np.arange(count, dtype=np.uint32), mesh, AXIS)
        arguments = (self.seeds, {}, np.int32(1), np.bool_(True), *self.numbers)
        began = time.perf_counter()
        self.compiled = compile_in_place(train_lanes(ppo, mesh), self.state, *arguments)
        self.compile_seconds = time.perf_counter() - began

    def train(self, updates: int) -> float:
        """Start anew and train for so many updates; return the seconds."""
        began = time.perf_counter()
        arguments = (self.seeds, {}, np.int32(updates), np.bool_(True), *self.numbers)
        self.state, point = self.compiled(self.state, *arguments)
        jax.block_until_ready((self.state, point))
        return time.perf_counter() - began


def seeds(size: float) -> Table:
    """Speed of many seeds in one program, all together, against one; and what a seed takes of the memory."""
    rows: list[list[Any]] = []
    alone, one = 0.0, 0
    for count, updates in ((1, 400), (16, 100), (256, 10)):
        agents, updates = Agents(count), max(1, int(updates * size))
        needed = memory.needed(agents.compiled)
        own = sum(leaf.nbytes for leaf in jax.tree.leaves(agents.state)) / count
        agents.train(updates)
        seconds = statistics.median(agents.train(updates) for _ in range(3))
        rate = count * updates * agents.config.steps_per_update / seconds
        alone, one = alone or rate, one or needed
        extra = (needed - one) / (count - 1) if count > 1 else None
        rows.append([count, rate, rate / alone, agents.compile_seconds, extra, own])
    columns = [("seeds", "count"), ("steps/s, all", "rate"), ("against one", "ratio"), ("compile", "seconds")]
    columns += [("memory per seed", "bytes"), ("agent and environments", "bytes")]
    return Table("PPO CartPole-v1, 4 x 128, seeds in one program, one device", columns, rows)


def devices(size: float) -> Table:
    """Seeds on two host devices against one: `purerl train` in processes of its own, in turn."""
    num_seeds, steps = 4, max(5 * ROLLOUT, int(300_000 * size))
    rates: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        for run in range(3):
            for count, found in rates.items():
                out = Path(folder) / f"{count}-{run}"
                command = f"train ppo CartPole-v1 --seeds {num_seeds} --total-timesteps {steps} --evaluations 0 --plain"
                arguments = [*command.split(), "--devices", str(count), "--out", str(out)]
                subprocess.run([sys.executable, "-m", "purerl", *arguments], check=True, stdout=subprocess.DEVNULL)
                found.append(json.loads((out / "summary.json").read_text())["env_steps_per_second"])
    middle = {count: statistics.median(found) for count, found in rates.items()}
    rows = [[count, rate, rate / middle[1]] for count, rate in middle.items()]
    columns = [("devices", "count"), ("steps/s, all", "rate"), ("against one", "ratio")]
    return Table(f"PPO CartPole-v1, {num_seeds} seeds over host devices", columns, rows)


def machinery(size: float) -> Table:
    """What a sweep costs beyond the bare program of the same work."""
    num_trials, num_seeds, steps = 64, 8, max(2 * ROLLOUT, int(8_192 * size))
    over = {"learning_rate": RATES, "env.gravity": Uniform(8, 12)}
    run = settings("ppo", "CartPole-v1", {"seeds": num_seeds, "devices": 1, "total_timesteps": steps})
    env, config = purerl.make("CartPole-v1"), run.config
    life = Sweep(make_sweep_plan(run, SearchOptions(trials=num_trials), over), None, plain=True)
    began = time.perf_counter()
    life.complete()
    plan = life.plan
    swept = time.perf_counter() - began - life.search.compile_seconds
    values = {name: np.array([trial[name] for trial in plan.trials], np.float32) for name in over}

    def one(values: dict[str, Any], key: Any) -> Any:
        own_config, own_env = with_values(config, env, values)
        return purerl.make_train(ppo, own_env, own_config, steps, num_points=plan.num_points)(key)[1]["episode_return"]

    keys = jax.vmap(jax.random.key)(np.arange(num_seeds, dtype=np.uint32))
    rows: list[list[Any]] = [["purerl.sweep", swept, None]]
    in_turn = lambda values, keys: jax.lax.map(lambda v: jax.lax.map(lambda key: one(v, key), keys), values)
    side_by_side = jax.vmap(jax.vmap(one, (None, 0)), (0, None))
    for what, train in (("jit(vmap(train))", side_by_side), ("jit(lax.map(train))", in_turn)):
        compiled = jax.jit(train).lower(values, keys).compile()
        began = time.perf_counter()
        jax.block_until_ready(compiled(values, keys))
        seconds = time.perf_counter() - began
        rows.append([what, seconds, swept / seconds])
    title = f"{num_trials} trials x {num_seeds} seeds of {steps:,} steps on one device, compilation left out"
    return Table(title, [("what", "text"), ("time", "seconds"), ("the sweep against it", "ratio")], rows)


def compilations(size: float) -> Table:
    """How many programs a sweep of 64 trials over 3 numbers and 2 shapes compiles; small whatever the size."""
    over = {"learning_rate": RATES, "num_envs": [2, 4], "env.gravity": Uniform(8, 12), "discount": Uniform(0.9, 0.99)}
    config = PPOConfig(rollout_length=16, hidden_sizes=(16,))
    COMPILED.clear()
    purerl.sweep(ppo, purerl.make("CartPole-v1"), config, over=over, num_seeds=2, total_timesteps=640, plain=True)
    columns = [("trials", "count"), ("numbers", "count"), ("shapes", "count"), ("programs compiled", "count")]
    return Table("Compilations of a sweep", columns, [[64, 3, 2, COMPILED.count("jit(train_lanes)")]])


def halving(size: float) -> Table:
    """The learning rate that successive halving finds, against that of the full grid, and the steps that both take."""
    num_trials, num_seeds, steps = 27, 8, max(9 * ROLLOUT, int(40_960 * size))
    env, config = purerl.make("CartPole-v1"), dataclasses.replace(PPOConfig(), hidden_sizes=(16, 16))
    search = {"over": {"learning_rate": LogUniform(1e-5, 1.0)}, "num_trials": num_trials, "num_seeds": num_seeds}
    rows: list[list[Any]] = []
    for method in ("grid", "halving"):
        result = purerl.sweep(ppo, env, config, method=method, total_timesteps=steps, plain=True, **search)
        rows.append([method, result.best["learning_rate"], result.best_return, _steps(result)])
    grid, halved = rows
    rows.append(["halving against grid", halved[1] / grid[1], halved[2] / grid[2], halved[3] / grid[3]])
    title = f"PPO CartPole-v1, {num_trials} learning rates x {num_seeds} seeds of {steps:,} steps"
    columns = [("method", "text"), ("best rate", "number"), ("its return", "number"), ("steps taken", "number")]
    return Table(title, columns, rows)


def _steps(result: SweepResult) -> int:
    return sum(row["env_steps"] for row in result.rows())


FIGURES = {"seeds": seeds, "devices": devices, "machinery": machinery, "compilations": compilations, "halving": halving}


def note(event: str, duration_secs: float, **about: str | int) -> None:
    """Note what is compiled; JAX calls it."""
    if event == "/jax/core/compile/backend_compile_duration":
        COMPILED.append(str(about["fun_name"]))


def measure(names: tuple[str, ...], size: float, out: Path) -> None:
    """Measure figures by name, show them, and keep them in the machine's file in `out`."""
    jax.monitoring.register_event_duration_secs_listener(note)
    console = Console()
    for name in names:
        began = time.perf_counter()
        table = FIGURES[name](size)
        console.print(tables.show(table))
        path = report.keep(out, {f"scale-{name}": [table]}, {"size": size})
        console.print(f"{time.perf_counter() - began:.0f} s; kept in {path}\n")


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice(list(FIGURES)), metavar="[FIGURE ...]")
@click.option("--size", default=1.0, metavar="X", help="A factor on the steps; below 1 to try it out.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), metavar="DIR", help="Default results.")
def main(names: tuple[str, ...], size: float, out: Path) -> None:
    """Measure."""
    measure(names or tuple(FIGURES), size, out)


if __name__ == "__main__":
    main()
