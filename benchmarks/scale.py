"""Many agents at once: seeds in one program and over devices, and the overhead of a sweep over the bare program."""

import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import purerl
from benchmarks import tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import compilations as compiled_programs
from benchmarks.timing import compiled, seconds_of
from purerl import LogUniform, Uniform
from purerl.algos.ppo import PPOConfig, ppo
from purerl.devices import memory, sharding
from purerl.loop.extension import Setup, maker, with_values
from purerl.loop.population import AXIS, TOGETHER, blank_states, compile_in_place, place, train_members
from purerl.run.program import as_leaf
from purerl.settings.runs import settings
from purerl.sweeps.plan import SearchOptions, make_sweep_plan
from purerl.sweeps.sweep import Sweep, SweepResult

MAKE = maker(ppo)
RATES = LogUniform(1e-4, 1e-2)
ROLLOUT = 512  # environment steps of PPO's update


class Agents:
    """PPO agents on CartPole in one compiled program on one device, as a sweep trains them."""

    def __init__(self, count: int):
        """Compile for `count` agents, which differ in their seed."""
        mesh = sharding.make_mesh(1, {AXIS: 1})
        self.config = PPOConfig()
        self.setup = jax.tree.map(as_leaf, Setup(config=self.config, env=purerl.make("CartPole-v1"), options={}))
        self.state = place(blank_states(MAKE, count, {}, self.setup, TOGETHER), mesh)
        self.seeds = sharding.place(np.arange(count, dtype=np.uint32), mesh, AXIS)
        arguments = (self.seeds, {}, np.int32(1), np.bool_(True), self.setup)
        began = time.perf_counter()
        self.compiled = compile_in_place(train_members(MAKE, mesh), self.state, *arguments)
        self.compile_seconds = time.perf_counter() - began

    def train(self, updates: int) -> float:
        """Train from the beginning for some updates; return the seconds."""
        arguments = (self.seeds, {}, np.int32(updates), np.bool_(True), self.setup)

        def call() -> Any:
            self.state, point = self.compiled(self.state, *arguments)
            return self.state, point

        return seconds_of(call)


def seeds(request: Request) -> list[Table]:
    """Measure the speed of many seeds in one program against one seed, and the memory of each."""
    rows: list[list[Any]] = []
    alone, one = 0.0, 0
    for count, updates in ((1, 400), (16, 100), (256, 10)):
        agents, updates = Agents(count), max(1, int(updates * request.size))
        needed = memory.needed(agents.compiled)
        state = sum(leaf.nbytes for leaf in jax.tree.leaves(agents.state)) / count
        agents.train(updates)
        seconds = statistics.median(agents.train(updates) for _ in range(3))
        rate = count * updates * agents.config.steps_per_update / seconds
        alone, one = alone or rate, one or needed
        extra = (needed - one) / (count - 1) if count > 1 else None
        rows.append([count, rate, rate / alone, agents.compile_seconds, extra, state])
    columns = tables.columns(
        "seeds: count; steps/s, all: rate; against one: ratio; compile: seconds; memory per seed: bytes; "
        "agent and environments: bytes"
    )
    return [Table(title="PPO CartPole-v1, 4 x 128, seeds in one program, one device", columns=columns, rows=rows)]


def devices(request: Request) -> list[Table]:
    """Compare seeds on two host devices with one: `purerl train` in processes of its own, in turn."""
    num_seeds, steps = 4, max(5 * ROLLOUT, int(300_000 * request.size))
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
    columns = tables.columns("devices: count; steps/s, all: rate; against one: ratio")
    return [Table(title=f"PPO CartPole-v1, {num_seeds} seeds over host devices", columns=columns, rows=rows)]


def machinery(request: Request) -> list[Table]:
    """Compare a sweep with the bare program of the same work."""
    num_trials, num_seeds, steps = 64, 8, max(2 * ROLLOUT, int(8_192 * request.size))
    over = {"learning_rate": RATES, "env.gravity": Uniform(8, 12)}
    run = settings("ppo", "CartPole-v1", {"seeds": num_seeds, "devices": 1, "total_timesteps": steps})
    env, config = purerl.make("CartPole-v1"), run.config
    life = Sweep(make_sweep_plan(run, SearchOptions(trials=num_trials), over), None, "plain")
    began = time.perf_counter()
    life.complete()
    plan = life.plan
    swept = time.perf_counter() - began - life.search.compile_seconds
    values = {name: np.array([trial[name] for trial in plan.trials], np.float32) for name in over}

    def one(values: dict[str, Any], key: Any) -> Any:
        new = with_values(Setup(config=config, env=env, options={}), values)
        train = purerl.make_train(ppo, new.env, new.config, steps, num_points=plan.num_points)
        return train(key)[1].episodes["episode_return"]

    keys = jax.vmap(jax.random.key)(np.arange(num_seeds, dtype=np.uint32))
    rows: list[list[Any]] = [["purerl.sweep", swept, None]]
    in_turn = lambda values, keys: jax.lax.map(lambda v: jax.lax.map(lambda key: one(v, key), keys), values)
    side_by_side = jax.vmap(jax.vmap(one, (None, 0)), (0, None))
    for what, train in (("jit(vmap(train))", side_by_side), ("jit(lax.map(train))", in_turn)):
        program, _ = compiled(train, values, keys)
        seconds = seconds_of(lambda program=program: program(values, keys))
        rows.append([what, seconds, swept / seconds])
    title = f"{num_trials} trials x {num_seeds} seeds of {steps:,} steps on one device, compilation left out"
    columns = tables.columns("what: text; time: seconds; the sweep against it: ratio")
    return [Table(title=title, columns=columns, rows=rows)]


def compilations(request: Request) -> list[Table]:
    """Count the programs that a sweep of 64 trials over 3 numbers and 2 shapes compiles; small whatever the size."""
    over = {"learning_rate": RATES, "num_envs": [2, 4], "env.gravity": Uniform(8, 12), "discount": Uniform(0.9, 0.99)}
    config = PPOConfig(rollout_length=16, hidden_sizes=(16,))
    programs = compiled_programs()
    purerl.sweep(ppo, purerl.make("CartPole-v1"), config, over=over, seeds=2, total_timesteps=640, display="plain")
    columns = tables.columns("trials: count; numbers: count; shapes: count; programs compiled: count")
    rows = [[64, 3, 2, programs.count("jit(train_members)")]]
    return [Table(title="Compilations of a sweep", columns=columns, rows=rows)]


def halving(request: Request) -> list[Table]:
    """Compare the learning rate that successive halving finds with that of the full grid, and the steps of both."""
    num_trials, num_seeds, steps = 27, 8, max(9 * ROLLOUT, int(40_960 * request.size))
    env, config = purerl.make("CartPole-v1"), dataclasses.replace(PPOConfig(), hidden_sizes=(16, 16))
    search = {"over": {"learning_rate": LogUniform(1e-5, 1.0)}, "trials": num_trials, "seeds": num_seeds}
    rows: list[list[Any]] = []
    for method in ("grid", "halving"):
        result = purerl.sweep(ppo, env, config, method=method, total_timesteps=steps, display="plain", **search)
        rows.append([method, result.best["learning_rate"], result.best_return, _steps(result)])
    grid, halved = rows
    rows.append(["halving against grid", halved[1] / grid[1], halved[2] / grid[2], halved[3] / grid[3]])
    title = f"PPO CartPole-v1, {num_trials} learning rates x {num_seeds} seeds of {steps:,} steps"
    columns = tables.columns("method: text; best rate: number; its return: number; steps taken: number")
    return [Table(title=title, columns=columns, rows=rows)]


def _steps(result: SweepResult) -> int:
    return sum(row["env_steps"] for row in result.rows())
