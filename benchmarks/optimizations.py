"""Ablation of each optimization: its speedup, and a check that learning is the same without it.

The interval is for the difference of mean final returns (95%, bootstrap over seeds); it should contain 0.
"""

import contextlib
import dataclasses
import statistics
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import purerl
from benchmarks import tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import compiled, in_turn, progress
from purerl import registry
from purerl.devices import selection, sharding, threads
from purerl.stats import bootstrap_interval
from purerl.xla import backend, switches

STEPS = 100_000
TASKS = {"ppo": {"learning_rate": 1e-3}, "dqn": {"learning_rate": 1e-3, "learning_starts": 1_000}}
COLUMNS = tables.columns(
    "task: text; without: text; steps/s: rate; of all: ratio; final return: number; difference: number; "
    "95% interval: text"
)


SETTINGS: dict[str, dict[str, Any]] = {  # optimizations that a setting takes away
    "nothing": {},
    "the fast generator": {"prng": "threefry"},
    "resets computed ahead": {"reset_policy": "always"},
}
WORKAROUNDS = {  # switches of `purerl.xla.switches` that matter to each algorithm, by the kind of device
    "cpu": {
        "ppo": ("flat_optimizer", "permutation", "accumulation", "product", "reductions", "successors", "vmap_cond"),
        "dqn": ("flat_optimizer", "product", "reductions", "vmap_cond"),
    },
    "gpu": {
        "ppo": ("flat_optimizer", "permutation", "columns", "packing", "graphs"),
        "dqn": ("flat_optimizer", "columns", "packing", "graphs"),
    },
}


def measure(request: Request) -> list[Table]:
    """Return the speed and the final return of PPO and DQN on CartPole-v1, 20 seeds, without each optimization."""
    seeds, rows = max(int(20 * request.size), 2), []
    for algorithm, switched in WORKAROUNDS["gpu" if jax.default_backend() == "gpu" else "cpu"].items():
        reference = None
        for name in (*SETTINGS, *switched):
            speed, returns = train(algorithm, name, seeds, max(int(STEPS * request.size), 12_288))
            reference = reference or (speed, returns)
            apart = lambda x, y: jnp.mean(x) - jnp.mean(y)
            low, high = bootstrap_interval(jax.random.key(0), returns, reference[1], statistic=apart)
            mean, gap = float(returns.mean()), float(returns.mean() - reference[1].mean())
            progress(f"{algorithm} without {name}: {speed:,.0f} steps/s, return {mean:.1f}")
            row = [f"{algorithm} CartPole-v1", name, speed, speed / reference[0], mean, gap]
            rows.append([*row, f"{low:.1f} .. {high:.1f}"])
    title = f"Each optimization taken away, {seeds} seeds"
    return [Table(title=title, columns=COLUMNS, rows=rows)]


def train(algorithm: str, without: str, seeds: int, steps: int) -> tuple[float, np.ndarray]:
    """Return (environment steps per second of all seeds, f32[seeds] the mean return of the last tenth).

    Args:
      algorithm: its name.
      without: a key of `SETTINGS`, or a switch of `purerl.xla.switches` to turn off.
      seeds: how many agents.
      steps: environment steps of each.
    """
    factory, cls = registry.algorithm(algorithm)
    settings = TASKS[algorithm] | SETTINGS.get(without, {}) | {"total_timesteps": steps}
    config = dataclasses.replace(cls(), **settings)
    with threads.fitting(config, "CartPole-v1", {}):
        mesh = selection.choose("auto", (), seeds, config.num_envs)
    keys = sharding.place(jax.random.split(jax.random.key(0), seeds), mesh, "seed")
    with contextlib.nullcontext() if without in SETTINGS else switches.off(without):
        whole = purerl.make_train(factory, purerl.make("CartPole-v1"), config, num_points=20)
        options = backend.compiler_options()
        program, _ = compiled(sharding.sharded_vmap(whole, mesh, "seed"), keys, compiler_options=options)
    (seconds,) = in_turn([lambda: program(keys)], 3)
    returns = np.asarray(program(keys)[1].episodes["episode_return"])
    return seeds * steps / statistics.median(seconds), np.nanmean(returns[:, -2:], axis=1)
