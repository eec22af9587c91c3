"""The figures of the README, measured here and printed as tables with the machine.

python scripts/benchmark.py [speed] [learning] [seeds] [start] [memory]

Every program is compiled and run once before it is timed; speeds are medians over runs with the range beside them, and
all outputs are computed. Machines differ and drift: compare ratios from one run.
"""

import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

import purerl
from purerl import config as configs
from purerl import registry

CONSOLE = Console()
PPO_FLOP_PER_STEP = 227e3  # of PPO on CartPole: two actor-critic MLPs of 64 x 64, 4 epochs, forward and backward
LEARNING = [  # algorithm, task, seeds, steps, figure to reach
    ("ppo", "CartPole-v1", 10, 500_000, 490.0),
    ("dqn", "CartPole-v1", 10, 500_000, 480.0),
    ("ppo", "Acrobot-v1", 10, 500_000, -85.0),
    ("ppo", "Pendulum-v1", 10, 1_000_000, -200.0),
    ("ppo", "MountainCarContinuous-v0", 10, 1_000_000, 90.0),
]


def machine() -> str:
    """Return one line about this machine and its versions."""
    device = jax.devices()[0]
    name = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            name = line.split(":")[1].strip()
            break
    return (
        f"{name}, {os.cpu_count()} cores; {device.platform} {device.device_kind} x {jax.device_count()}; "
        f"Python {platform.python_version()}, jax {jax.__version__}, purerl {purerl.__version__}"
    )


def timed(run: Callable[[], Any], runs: int = 5) -> list[float]:
    """Return the seconds of each of `runs` calls after one that is not counted."""
    jax.block_until_ready(run())
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append(time.perf_counter() - began)
    return seconds


def matmul_peak() -> float:
    """Return FLOP/s of a float32 product of 2048 x 2048 matrices, the best of several."""
    a = jax.random.normal(jax.random.key(0), (2048, 2048))
    product = jax.jit(lambda x: x @ x)
    return 2 * 2048**3 / min(timed(lambda: product(a), 8))


def training(algorithm: str, env: str, steps: int, seeds: int, settings: dict[str, Any]) -> tuple[float, Callable]:
    """Return (compile seconds, a call that trains)."""
    factory, cls = registry.algorithm(algorithm)
    train = purerl.make_train(factory, purerl.make(env), cls(**settings), steps)
    keys = jax.random.split(jax.random.key(0), seeds)
    began = time.perf_counter()
    compiled = jax.jit(jax.vmap(train) if seeds > 1 else lambda keys: train(keys[0])).lower(keys).compile()
    return time.perf_counter() - began, lambda: compiled(keys)


def table(title: str, *columns: str) -> Table:
    """Return an empty table."""
    made = Table(title=title, title_justify="left")
    for column in columns:
        made.add_column(column, justify="left" if column == columns[0] else "right")
    return made


def speed() -> None:
    """Training speed of one seed without compilation, and its share of the matrix-product peak."""
    rows = [
        ("PPO CartPole-v1, 4 x 128, 4 epochs x 4", "ppo", 400_000, {}),
        ("PPO CartPole-v1, 2048 x 32, 4 epochs x 4", "ppo", 1_000_000, {"num_envs": 2048, "rollout_length": 32}),
        ("DQN CartPole-v1, 10 envs, batch 128 per 10 steps", "dqn", 200_000, {"learning_starts": 1_000}),
    ]
    made = table("Training speed, one seed", "what", "steps/s", "range", "matmul peak", "share", "compile")
    for what, algorithm, steps, settings in rows:
        compile_seconds, run = training(algorithm, "CartPole-v1", steps, 1, settings)
        before = matmul_peak()
        seconds = timed(run)
        peak = max(before, matmul_peak())
        rate = steps / statistics.median(seconds)
        share = f"{rate * PPO_FLOP_PER_STEP / peak:.0%}" if algorithm == "ppo" else ""
        span = f"{steps / max(seconds):,.0f} .. {steps / min(seconds):,.0f}"
        made.add_row(what, f"{rate:,.0f}", span, f"{peak / 1e9:.0f} GFLOP/s", share, f"{compile_seconds:.1f} s")
    CONSOLE.print(made)


def seeds() -> None:
    """Speed of many vmapped seeds, all together, against one."""
    made = table("PPO CartPole-v1, 4 x 128, vmapped seeds", "seeds", "steps/s, all", "against one", "compile")
    alone = None
    for count, steps in ((1, 200_000), (16, 50_000), (256, 5_000)):
        compile_seconds, run = training("ppo", "CartPole-v1", steps, count, {})
        rate = count * steps / statistics.median(timed(run, 3))
        alone = alone or rate
        made.add_row(str(count), f"{rate:,.0f}", f"{rate / alone:.2f}x", f"{compile_seconds:.1f} s")
    CONSOLE.print(made)


def learning() -> None:
    """Final greedy returns, with the settings in configs/."""
    made = table("Final return, 128 greedy episodes per seed", "what", "mean", "worst seed", "best seed", "to reach")
    for algorithm, env_id, num_seeds, steps, goal in LEARNING:
        run = configs.settings(algorithm, env_id, {"total_timesteps": steps})
        factory, _ = registry.algorithm(algorithm)
        env = purerl.make(env_id)
        trainer = purerl.make_trainer(factory, env, run.config)
        train = purerl.make_train(factory, env, run.config, steps)

        def final(key: jax.Array, train: Any = train, trainer: Any = trainer) -> jax.Array:
            state, _ = train(key)
            return jnp.mean(purerl.evaluate(trainer, state.agent, jax.random.fold_in(key, 1)).episode_return)

        returns = jax.jit(jax.vmap(final))(jax.random.split(jax.random.key(0), num_seeds))
        what = f"{algorithm} {env_id}, {steps:,} steps, {num_seeds} seeds"
        cells = (f"{value:.1f}" for value in (returns.mean(), returns.min(), returns.max()))
        made.add_row(what, *cells, f"{goal:g}")
        CONSOLE.print(f"{what}: {float(returns.mean()):.1f}")
    CONSOLE.print(made)


def start() -> None:
    """From typing the command to a trained CartPole agent on disk, without and with a compilation cache."""
    made = table("purerl train ppo CartPole-v1, 500k steps, one seed, whole process", "cache", "seconds")
    with tempfile.TemporaryDirectory() as folder:
        for attempt in ("cold", "warm"):
            command = [sys.executable, "-m", "purerl", "train", "ppo", "CartPole-v1", "--plain"]
            command += ["--out", f"{folder}/{attempt}"]
            environment = os.environ | {"XDG_CACHE_HOME": f"{folder}/cache"}
            began = time.perf_counter()
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
            made.add_row(attempt, f"{time.perf_counter() - began:.1f}")
    CONSOLE.print(made)


def memory() -> None:
    """Peak memory of a process that trains 256 vmapped CartPole seeds for 500k steps each, metrics included."""
    code = (
        "import jax, purerl, resource\n"
        "from purerl.algos.ppo import PPOConfig, ppo\n"
        "train = jax.jit(jax.vmap(purerl.make_train(ppo, purerl.make('CartPole-v1'), PPOConfig(), 500_000)))\n"
        "jax.block_until_ready(train(jax.random.split(jax.random.key(0), 256)))\n"
    )
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    made = table("256 vmapped CartPole seeds, 500k steps each", "peak memory", "seconds")
    made.add_row(f"{peak:.2f} GB", f"{time.perf_counter() - began:.0f}")
    CONSOLE.print(made)


PARTS = {"speed": speed, "learning": learning, "seeds": seeds, "start": start, "memory": memory}


def main() -> None:
    """Run the parts named on the command line, or all."""
    names = sys.argv[1:] or list(PARTS)
    for name in names:
        if name not in PARTS:
            sys.exit(f"unknown part '{name}'; allowed: {', '.join(PARTS)}")
    CONSOLE.print(machine())
    for name in names:
        PARTS[name]()


if __name__ == "__main__":
    main()
