"""The figures of the README, measured here and printed as tables with the machine.

python scripts/benchmark.py [speed] [replay] [sac] [seeds] [start] [memory] [scale]

What agents reach in the end is measured by `python scripts/learning_curves.py`.

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
from purerl import registry, replay
from purerl.explain import matmul_peak
from purerl.priority import prioritized
from purerl.prng import fast
from purerl.types import EnvironmentSpec, Rollout

CONSOLE = Console()
PPO_FLOP_PER_STEP = 227e3  # of PPO on CartPole: two actor-critic MLPs of 64 x 64, 4 epochs, forward and backward
SB3 = """
import time, torch
from stable_baselines3 import SAC
model = SAC("MlpPolicy", "Pendulum-v1", **SETTINGS)
model.learn(1_000)
began = time.perf_counter()
model.learn(STEPS, reset_num_timesteps=False)
print(STEPS / (time.perf_counter() - began))
"""


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
        ("PQN CartPole-v1, 32 x 64, 4 epochs x 16, 256 units", "pqn", 200_000, {"hidden_sizes": (256, 256)}),
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


def replays() -> None:
    """What drawing a batch of 256 and giving its errors back costs, uniformly and by priority, in turn."""
    made = table("Replay, a batch of 256 drawn and updated", "steps held, seeds", "uniform", "prioritised", "ratio")
    for capacity, seeds in ((10_000, 1), (1_000_000, 1), (1_000_000, 4)):
        calls = [replay_call(kind, capacity, seeds) for kind in (replay.uniform, prioritized)]
        rounds = [[timed(call, 1)[0] for call in calls] for _ in range(7)]
        uniform, priority = (statistics.median(column) / 200 / seeds * 1e6 for column in zip(*rounds, strict=True))
        cells = (f"{uniform:.0f} us", f"{priority:.0f} us", f"{priority / uniform:.2f}x")
        made.add_row(f"{capacity:,}, {seeds}", *cells)
    CONSOLE.print(made)


def replay_call(kind: Callable[..., replay.Replay], capacity: int, seeds: int) -> Callable[[], Any]:
    """Return a call that draws and updates 200 batches, one after the other, of full replays of CartPole's steps."""
    env = purerl.make("CartPole-v1")
    memory = kind(EnvironmentSpec(env.observation_space, env.action_space), capacity, 10, 256)
    length = capacity // 20 - 1
    zeros = jnp.zeros((length, 10))
    seen = jnp.ones((length, 10, 4))
    steps = Rollout(seen, zeros.astype(jnp.int32), zeros + 1.0, zeros > 0, zeros > 0, seen, (), ())

    def fill(key: jax.Array) -> Any:
        return memory.add(memory.add(memory.init(), steps), steps)

    def once(carry: tuple[Any, jax.Array], key: jax.Array) -> tuple[tuple[Any, jax.Array], None]:
        state, total = carry
        batch = memory.sample(state, key)
        state = memory.update(state, batch, jnp.abs(batch.reward) + 0.1)
        parts = (batch.observation, batch.next_observation, batch.reward, batch.weight)
        return (state, total + sum((jnp.sum(part) for part in parts), jnp.float32(0))), None

    def many(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        return jax.lax.scan(once, (state, jnp.float32(0)), jax.random.split(fast(key), 200))[0]

    keys = jax.random.split(jax.random.key(0), seeds)
    held = [jax.jit(jax.vmap(fill))(keys)]
    advance = jax.jit(jax.vmap(many), donate_argnums=0)

    def call() -> jax.Array:
        held[0], total = advance(held[0], keys)
        return total

    return call


def sac() -> None:
    """SAC on Pendulum-v1, beside stable-baselines3 where SB3_PYTHON names an interpreter that has it."""
    rows = [  # what, our settings, those of stable-baselines3 that do the same, steps of each
        ("256 x 256, batch 256, a gradient step per step", {}, {}, 5_000, 2_000),
        (
            "64 x 64, batch 128, a gradient step per two",
            {"num_envs": 4, "num_gradient_steps": 2, "hidden_sizes": (64, 64), "batch_size": 128},
            {"policy_kwargs": {"net_arch": [64, 64]}, "batch_size": 128, "train_freq": 4, "gradient_steps": 2},
            50_000,
            4_000,
        ),
    ]
    made = table("SAC, Pendulum-v1, one seed", "settings", "steps/s", "stable-baselines3", "ratio")
    for what, ours, theirs, steps, their_steps in rows:
        _, run = training("sac", "Pendulum-v1", steps, 1, {"learning_starts": 1_000, **ours})
        rate, other = steps / statistics.median(timed(run, 3)), sb3_speed(theirs, their_steps)
        made.add_row(
            what, f"{rate:,.0f}", f"{other:,.0f}" if other else "not measured", f"{rate / (other or rate):.1f}x"
        )
    CONSOLE.print(made)


def sb3_speed(settings: dict[str, Any], steps: int) -> float | None:
    """Return the steps/s of stable-baselines3 once it learns; None where it is not named."""
    python = os.environ.get("SB3_PYTHON")
    if not python:
        return None
    code = f"SETTINGS, STEPS = {settings!r}, {steps}\n{SB3}"
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


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


def scale() -> None:
    """Many agents at once: see benchmark_scale.py."""
    from benchmark_scale import main as measure

    measure()


PARTS = {
    "speed": speed,
    "replay": replays,
    "sac": sac,
    "seeds": seeds,
    "start": start,
    "memory": memory,
    "scale": scale,
}


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
