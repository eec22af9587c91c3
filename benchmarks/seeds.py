"""Many agents at once: total speed compared with one agent, on one device and on all; and their memory."""

import time
from typing import Any

from benchmarks import tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import progress, run_process, spread

# A process of its own: how many devices a CPU is divided into is decided once, and memory is a whole process's.
TRAIN = """
import json, sys, time
import jax
from benchmarks.workers.protocol import peak_memory
from purerl.devices import memory, selection, sharding, threads
import purerl
from purerl.algos.ppo import PPOConfig, ppo
seeds, steps, runs, way = json.loads(sys.argv[1])
if way not in ("alone", "vmap"):  # before anything starts JAX
    with threads.fitting(PPOConfig(), "CartPole-v1", {}):
        mesh = selection.choose(way, (), seeds, 4)
points = None if way == "alone" else 1
train = purerl.make_train(ppo, purerl.make("CartPole-v1"), PPOConfig(), steps, points)
if way == "alone":
    many, devices, place = lambda keys: train(keys[0]), 1, lambda keys: keys
elif way == "vmap":
    many, devices, place = jax.vmap(train), 1, lambda keys: keys
else:
    many, devices = sharding.sharded_vmap(train, mesh, "seed"), mesh.size
    place = lambda keys: sharding.place(keys, mesh, "seed")
keys = place(jax.random.split(jax.random.key(0), seeds))
began = time.perf_counter()
compiled = jax.jit(many).lower(keys).compile()
compile_seconds = time.perf_counter() - began
times = []
for run in range(runs + (runs > 1)):
    began = time.perf_counter()
    jax.block_until_ready(compiled(keys))
    times.append(time.perf_counter() - began)
result = {"seconds": times[runs > 1:], "compile": compile_seconds, "program": memory.needed(compiled)}
print(json.dumps(result | {"peak": peak_memory(), "devices": devices}))
"""
WAYS = {"alone": "jit(train)", "vmap": "jit(vmap(train))", 1: "in turn, one device", "auto": "purerl train"}
SPEED = tables.columns(
    "how: text; seeds: count; devices: count; environment steps/s, all: rate; against one seed: ratio; compile: seconds"
)
MEMORY = tables.columns(
    "how: text; seeds: count; steps of each: count; peak of the process: bytes; of the program: bytes; seconds: seconds"
)
COUNTS = ((1, 200_000), (16, 50_000), (256, 5_120))  # seeds, environment steps of each


def train(seeds: int, steps: int, runs: int, way: int | str) -> dict[str, Any]:
    """Return "seconds" of each run, "compile" seconds, "program" and "peak" bytes, and "devices" of a training run.

    Args:
      seeds: number of agents.
      steps: environment steps per agent.
      runs: number of training runs.
      way: one of `WAYS`.
    """
    return run_process(TRAIN, [seeds, steps, runs, way])


def measure(request: Request) -> list[Table]:
    """Return the speed of PPO on CartPole, 4 x 128, with 1, 16 and 256 seeds."""
    rows: list[list[Any]] = []
    alone = None
    for seeds, steps in COUNTS:
        steps = max(int(steps * request.size), 512)
        for way in ("alone",) if seeds == 1 else ("vmap", 1, "auto"):
            trained = train(seeds, steps, request.runs, way)
            speed = spread([seeds * (steps // 512 * 512) / s for s in trained["seconds"]])
            alone = alone or speed["median"]
            progress(f"{seeds} seeds, {WAYS[way]}: {speed['median']:,.0f} steps/s")
            rows.append([WAYS[way], seeds, trained["devices"], speed, speed["median"] / alone, trained["compile"]])
    return [Table(title="PPO, 4 x 128, CartPole-v1: seeds side by side", columns=SPEED, rows=rows)]


def measure_memory(request: Request) -> list[Table]:
    """Return the memory of processes that train 1 and 256 seeds; how long they train does not change it."""
    steps, rows = 5_120, []
    for way, seeds in (("alone", 1), ("vmap", 256), ("auto", 256)):
        began = time.perf_counter()
        trained = train(seeds, steps, 1, way)
        rows.append([WAYS[way], seeds, steps, trained["peak"], trained["program"], time.perf_counter() - began])
        progress(f"{seeds} seeds, {WAYS[way]}: {trained['peak'] / 1e9:.2f} GB")
    return [Table(title="Memory of PPO, 4 x 128, CartPole-v1", columns=MEMORY, rows=rows)]
