"""Programs on a GPU: kernels and graph launches of an update, by the compiler; and where there is one, its speed."""

import statistics
from typing import Any

import jax

import purerl
from benchmarks import kernels, tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import run_process, spread
from purerl import registry
from purerl.xla import backend

TASKS = (  # algorithm, environment, settings
    ("ppo", "CartPole-v1", {"num_envs": 2048, "rollout_length": 128}),
    ("ppo", "Breakout-MinAtar", {"num_envs": 2048, "rollout_length": 128, "network": "mlp"}),
    ("dqn", "CartPole-v1", {"num_envs": 512}),
)
COUNTS = tables.columns(
    "update of: text; environment steps: count; loops: turns x kernels: text; kernels outside: count; "
    "kernels, all: count; launches: count; steps/s that kernels allow: rate"
)
SPEEDS = tables.columns("what: text; steps/s: rate; seconds: seconds; compile: seconds")
# Processes of their own, each of which has the GPU's memory to itself.
CHAIN = """
import json, sys, time
import jax, jax.numpy as jnp
length, options = 4096, json.loads(sys.argv[1])
def step(_, x):  # a sum over the rows, then back: two kernels that depend on one another
    return x * 0.5 + jnp.sum(x, axis=0, keepdims=True) * 1e-3
run = jax.jit(lambda x: jax.lax.fori_loop(0, length, step, x), compiler_options=options)
x = jnp.ones((256, 256))
jax.block_until_ready(run(x))
seconds = []
for _ in range(7):
    began = time.perf_counter()
    jax.block_until_ready(run(x))
    seconds.append((time.perf_counter() - began) / length / 2)
print(json.dumps(seconds))
"""
TRAIN = """
import json, sys, time
import jax, purerl
from purerl.algos.ppo import PPOConfig, ppo
options, seeds, steps, runs, settings = json.loads(sys.argv[1])
train = purerl.make_train(ppo, purerl.make("CartPole-v1"), PPOConfig(**settings), steps, num_points=1)
keys = jax.random.split(jax.random.key(0), seeds)
began = time.perf_counter()
compiled = jax.jit(jax.vmap(train), compiler_options=options).lower(keys).compile()
compile_seconds, seconds = time.perf_counter() - began, []
for _ in range(runs + 1):
    began = time.perf_counter()
    jax.block_until_ready(compiled(keys))
    seconds.append(time.perf_counter() - began)
print(json.dumps([compile_seconds, seconds[1:]]))
"""


def measure(request: Request) -> list[Table]:
    """Return the counts of kernels if there is a compiler, and speeds if there is a GPU; else what is missing."""
    return [counts(), speeds(request.runs, request.size)]


def counts() -> Table:
    """Return kernels and launches of an update, compiled for an H200."""
    title = f"An update on an H200, by its compiler; {kernels.MICROSECONDS} us per kernel"
    missing = kernels.unavailable()
    if missing is not None:
        return Table(title=title, columns=[("not counted", "text")], rows=[[missing]])
    rows = []
    for algorithm, environment, given in TASKS:
        factory, cls = registry.algorithm(algorithm)
        config = cls(**given)
        update = kernels.compile_update(factory, purerl.make(environment), config)
        loops = ", ".join(f"{loop.trips or '?'} x {loop.kernels}" for loop in update.loops)
        allowed = config.steps_per_update / (update.kernels * kernels.MICROSECONDS * 1e-6)
        name = f"{algorithm}, {environment}, {config.num_envs} x {config.rollout_length}"
        rows.append([name, config.steps_per_update, loops, update.outside, update.kernels, update.launches, allowed])
    return Table(title=title, columns=COUNTS, rows=rows)


def speeds(runs: int, size: float) -> Table:
    """Return the time of a dependent kernel and the speed of PPO, with loops as CUDA graphs and without."""
    title = "On the GPU of this machine"
    if jax.default_backend() != "gpu":
        return Table(title=title, columns=[("not measured", "text")], rows=[["there is no GPU here"]])
    rows: list[list[Any]] = []
    updates = max(int(100 * size), 2)
    for options in (None, backend.GRAPHS):
        how = "loops as graphs" if options else "as JAX does it"
        rows.append([f"a dependent kernel, {how}", None, statistics.median(run_process(CHAIN, options)), None])
        for what, seeds, steps, settings in (
            ("PPO, 2048 x 128", 1, updates * 2048 * 128, {"num_envs": 2048}),
            ("PPO, 4 x 128, 2048 agents", 2048, max(int(500_000 * size), 512), {}),
        ):
            argument = [options, seeds, steps, runs if seeds == 1 else 1, settings]
            compile_seconds, seconds = run_process(TRAIN, argument)
            rates = spread([seeds * steps / s for s in seconds])
            rows.append([f"{what}, {how}", rates, statistics.median(seconds), compile_seconds])
    return Table(title=title, columns=SPEEDS, rows=rows)
