"""Many agents at once: their speed together against one, on one device and on all; and the memory they take."""

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.tables import Table
from benchmarks.timing import tell

# A process of its own: how many devices a CPU is divided into is decided once, and memory is a whole process's.
TRAIN = """
import json, resource, sys, time
import jax
from purerl import devices, memory, sharding, threads
import purerl
from purerl.algos.ppo import PPOConfig, ppo
seeds, steps, runs, wanted = json.loads(sys.argv[1])
if wanted not in ("alone", "vmap"):  # before anything starts JAX
    with threads.fitting(PPOConfig(), "CartPole-v1", {}):
        mesh = devices.choose(wanted, (), seeds, 4)
points = None if wanted == "alone" else 1
train = purerl.make_train(ppo, purerl.make("CartPole-v1"), PPOConfig(), steps, points)
if wanted == "alone":
    many, there, place = lambda keys: train(keys[0]), 1, lambda keys: keys
elif wanted == "vmap":
    many, there, place = jax.vmap(train), 1, lambda keys: keys
else:
    many, there, place = sharding.lanes(train, mesh, "seed"), mesh.size, lambda keys: sharding.place(keys, mesh, "seed")
keys = place(jax.random.split(jax.random.key(0), seeds))
began = time.perf_counter()
compiled = jax.jit(many).lower(keys).compile()
compile_seconds = time.perf_counter() - began
times = []
for run in range(runs + (runs > 1)):
    began = time.perf_counter()
    jax.block_until_ready(compiled(keys))
    times.append(time.perf_counter() - began)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps([times[runs > 1:], compile_seconds, memory.needed(compiled), peak, there]))
"""
WAYS = {"alone": "jit(train)", "vmap": "jit(vmap(train))", 1: "in turn, one device", "auto": "purerl train"}
SPEED = [
    ("how", "text"),
    ("seeds", "count"),
    ("devices", "count"),
    ("environment steps/s, all", "rate"),
    ("against one seed", "ratio"),
    ("compile", "seconds"),
]
MEMORY = [
    ("how", "text"),
    ("seeds", "count"),
    ("steps of each", "count"),
    ("peak of the process", "bytes"),
    ("of the program", "bytes"),
    ("seconds", "seconds"),
]
COUNTS = ((1, 200_000), (16, 50_000), (256, 5_120))  # seeds, environment steps of each


def train(seeds: int, steps: int, runs: int, way: int | str) -> list[Any]:
    """Return [seconds of each run, compile seconds, bytes of the program, of the process, devices] of a training."""
    line = [sys.executable, "-c", TRAIN, json.dumps([seeds, steps, runs, way])]
    done = subprocess.run(line, check=True, capture_output=True, text=True, env=without_cache())
    return json.loads(done.stdout.splitlines()[-1])


def without_cache() -> dict[str, str]:
    """Return this process's environment variables but for the cache of compiled programs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("JAX_COMPILATION_CACHE")}


def measure(runs: int, size: float) -> Table:
    """Return the speed of PPO on CartPole, 4 x 128, of 1, 16 and 256 seeds."""
    rows: list[list[Any]] = []
    alone = None
    for seeds, steps in COUNTS:
        steps = max(int(steps * size), 512)
        for way in ("alone",) if seeds == 1 else ("vmap", 1, "auto"):
            times, compile_seconds, _, _, there = train(seeds, steps, runs, way)
            rates = sorted(seeds * (steps // 512 * 512) / s for s in times)
            alone = alone or statistics.median(rates)
            speed = {"median": statistics.median(rates), "low": rates[0], "high": rates[-1]}
            tell(f"{seeds} seeds, {WAYS[way]}: {speed['median']:,.0f} steps/s")
            rows.append([WAYS[way], seeds, there, speed, speed["median"] / alone, compile_seconds])
    return Table("PPO, 4 x 128, CartPole-v1: seeds side by side", SPEED, rows)


def measure_memory() -> Table:
    """Return the memory of processes that train 1 and 256 seeds; how long they train does not change it."""
    steps, rows = 5_120, []
    for way, seeds in (("alone", 1), ("vmap", 256), ("auto", 256)):
        began = time.perf_counter()
        _, _, program, peak, _ = train(seeds, steps, 1, way)
        rows.append([WAYS[way], seeds, steps, peak, program, time.perf_counter() - began])
        tell(f"{seeds} seeds, {WAYS[way]}: {peak / 1e9:.2f} GB")
    return Table("Memory of PPO, 4 x 128, CartPole-v1", MEMORY, rows)
