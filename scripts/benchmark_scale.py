"""Figures of many agents at once: `python scripts/benchmark.py scale`."""

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
from benchmark import CONSOLE, table

import purerl
from purerl import LogUniform, Uniform, memory, sharding
from purerl.algos.ppo import PPOConfig, ppo
from purerl.config import settings
from purerl.lanes import AXIS, TOGETHER, blank, compile_in_place, place, train_lanes, with_values
from purerl.program import as_leaf
from purerl.sweeps.plan import SearchOptions, make_sweep_plan
from purerl.sweeps.sweep import Sweep

RATES = LogUniform(1e-4, 1e-2)
COMPILED: list[tuple[str, float]] = []  # name and seconds


class Agents:
    """PPO agents on CartPole in one compiled program on one device, as a sweep trains them."""

    def __init__(self, count: int, config: PPOConfig | None = None):
        """Compile for so many, which differ in their seed."""
        mesh = sharding.make_mesh(1, {AXIS: 1})
        self.config = config or PPOConfig()
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


def seeds() -> None:
    """Speed of many seeds in one program, all together, against one; and what a seed takes of the memory."""
    made = table(
        "PPO CartPole-v1, 4 x 128, seeds in one program, one device",
        *("seeds", "steps/s, all", "against one", "compile", "memory per seed", "agent and environments"),
    )
    alone, one = 0.0, 0
    for count, updates in ((1, 400), (16, 100), (256, 10)):
        agents = Agents(count)
        needed = memory.needed(agents.compiled)
        own = sum(leaf.nbytes for leaf in jax.tree.leaves(agents.state)) / count
        agents.train(updates)
        seconds = statistics.median(agents.train(updates) for _ in range(3))
        rate = count * updates * agents.config.steps_per_update / seconds
        alone, one = alone or rate, one or needed
        extra = f"{(needed - one) / (count - 1) / 1e6:.2f} MB" if count > 1 else ""
        cells = (
            f"{rate:,.0f}",
            f"{rate / alone:.2f}x",
            f"{agents.compile_seconds:.1f} s",
            extra,
            f"{own / 1e6:.2f} MB",
        )
        made.add_row(str(count), *cells)
    CONSOLE.print(made)


def machinery(num_trials: int = 64, num_seeds: int = 8, steps: int = 20_480) -> None:
    """What a sweep costs beyond the bare program of the same work."""
    over = {"learning_rate": RATES, "env.gravity": Uniform(8, 12)}
    run = settings("ppo", "CartPole-v1", {"seeds": num_seeds, "devices": 1, "total_timesteps": steps})
    env, config = purerl.make("CartPole-v1"), run.config
    life = Sweep(make_sweep_plan(run, SearchOptions(trials=num_trials), over), None, plain=True)
    began = time.perf_counter()
    life.complete()
    whole, compiling, plan = time.perf_counter() - began, life.method.compile_seconds, life.plan
    values = {name: np.array([trial[name] for trial in plan.trials], np.float32) for name in over}

    def one(values: dict[str, Any], key: Any) -> Any:
        own_config, own_env = with_values(config, env, values)
        return purerl.make_train(ppo, own_env, own_config, steps, num_points=plan.num_points)(key)[1]["episode_return"]

    keys = jax.vmap(jax.random.key)(np.arange(num_seeds, dtype=np.uint32))
    made = table(
        f"{num_trials} trials x {num_seeds} seeds of {steps:,} steps, compilation left out", "what", "seconds", "sweep"
    )
    made.add_row("purerl.sweeps.sweep", f"{whole - compiling:.1f}", "")
    in_turn = lambda values, keys: jax.lax.map(lambda v: jax.lax.map(lambda key: one(v, key), keys), values)
    side_by_side = jax.vmap(jax.vmap(one, (None, 0)), (0, None))
    for what, train in (("jit(vmap(train))", side_by_side), ("jit(lax.map(train))", in_turn)):
        compiled = jax.jit(train).lower(values, keys).compile()
        began = time.perf_counter()
        jax.block_until_ready(compiled(values, keys))
        seconds = time.perf_counter() - began
        made.add_row(what, f"{seconds:.1f}", f"{(whole - compiling) / seconds - 1:+.1%}")
    CONSOLE.print(made)


def note(event: str, duration_secs: float, **about: str | int) -> None:
    """Note what is compiled; JAX calls it."""
    if event == "/jax/core/compile/backend_compile_duration":
        COMPILED.append((str(about["fun_name"]), duration_secs))


def halving(num_trials: int = 27, num_seeds: int = 4, steps: int = 20_480) -> None:
    """The learning rate that successive halving finds, against that of the full grid, and the steps that both take."""
    env, config = purerl.make("CartPole-v1"), dataclasses.replace(PPOConfig(), hidden_sizes=(16, 16))
    search = {"over": {"learning_rate": LogUniform(1e-5, 1.0)}, "num_trials": num_trials, "num_seeds": num_seeds}
    title = f"PPO CartPole-v1, {num_trials} learning rates x {num_seeds} seeds"
    made = table(title, "method", "best rate", "return", "steps")
    found = {}
    for method in ("grid", "halving"):
        result = purerl.sweep(ppo, env, config, method=method, total_timesteps=steps, plain=True, **search)
        taken = sum(row["env_steps"] for row in result.rows())
        found[method] = result.best["learning_rate"], taken
        made.add_row(method, f"{found[method][0]:.2e}", f"{result.best_return:.0f}", f"{taken:,}")
    rates, taken = zip(*found.values(), strict=True)
    made.add_row("halving / grid", f"{rates[1] / rates[0]:.2f}x", "", f"{taken[1] / taken[0]:.0%}")
    CONSOLE.print(made)


def compilations() -> None:
    """How many programs a sweep of 64 trials over 3 numbers and 2 shapes compiles."""
    over = {"learning_rate": RATES, "num_envs": [2, 4], "env.gravity": Uniform(8, 12), "discount": Uniform(0.9, 0.99)}
    config = PPOConfig(rollout_length=16, hidden_sizes=(16,))
    COMPILED.clear()
    purerl.sweep(ppo, purerl.make("CartPole-v1"), config, over=over, num_seeds=2, total_timesteps=640, plain=True)
    programs = sum(name == "jit(train_lanes)" for name, _ in COMPILED)
    CONSOLE.print(f"64 trials over 3 numbers and 2 shapes: {programs} compilations of training")


def devices(num_seeds: int = 4, steps: int = 300_000, runs: int = 3) -> None:
    """Seeds on two host devices against one: `purerl train` in processes of its own, in turn."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        for run in range(runs):
            for count, found in rates.items():
                out = Path(folder) / f"{count}-{run}"
                command = f"train ppo CartPole-v1 --seeds {num_seeds} --total-timesteps {steps} --evaluations 0 --plain"
                arguments = [*command.split(), "--devices", str(count), "--out", str(out)]
                subprocess.run([sys.executable, "-m", "purerl", *arguments], check=True, stdout=subprocess.DEVNULL)
                found.append(json.loads((out / "summary.json").read_text())["env_steps_per_second"])
    made = table(f"PPO CartPole-v1, {num_seeds} seeds over host devices", "devices", "steps/s, all", "against one")
    for count, found in rates.items():
        ratio = statistics.median(found) / statistics.median(rates[1])
        made.add_row(str(count), f"{statistics.median(found):,.0f}", f"{ratio:.2f}x")
    CONSOLE.print(made)


def main() -> None:
    """All of them."""
    jax.monitoring.register_event_duration_secs_listener(note)
    seeds()
    devices()
    machinery()
    compilations()
    halving()
