"""Programs on a GPU: kernels and graph launches of an update, by the compiler; and where there is one, its speed."""

import functools
import statistics
from collections.abc import Sequence

import jax

import purerl
from benchmarks import kernels, tables
from benchmarks.contest import Problem
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import run_process, spread
from benchmarks.training import BRAX, BREAKOUT, DQN, PPO, contest_table, problem
from purerl import registry
from purerl.xla import backend

COUNTS = tables.columns(
    "update of: text; environment steps: count; loops: turns x kernels: text; kernels outside: count; "
    "kernels, all: count; launches: count; steps/s that kernels allow: rate"
)
LAUNCHES = tables.columns("loops: text; a dependent kernel: seconds; PPO, 2048 x 128, steps/s: rate; compile: seconds")
SMALL, LARGE = {"num_envs": 4, "rollout_length": 128} | PPO, {"num_envs": 2048, "rollout_length": 128} | PPO
ONE = (
    problem("PPO, 4 x 128", "ppo", "CartPole-v1", 250_000, SMALL),
    problem("PPO, 2048 x 128", "ppo", "CartPole-v1", 2**25, LARGE),
    problem("PPO, 2048 x 128, MLP", "ppo", "Breakout-MinAtar", 2**24, LARGE | BREAKOUT),
    problem("DQN, 10 envs, batch 128 per 10 steps", "dqn", "CartPole-v1", 250_000, DQN),
)
MANY = (
    problem("PPO, 4 x 128, 2048 seeds", "ppo", "CartPole-v1", 2**16, SMALL, seeds=2048),
    problem("PPO, 4 x 128, 10,000 seeds", "ppo", "CartPole-v1", 2**14, SMALL, seeds=10_000),
)
ROBOTS = (
    problem(
        "PPO, 2048 x 16",
        "ppo",
        "brax/ant",
        2**22,
        BRAX | {"num_envs": 2048, "num_minibatches": 32},
        parameters={"backend": "spring"},
    ),
)
CROWD = {"num_envs": 2000, "rollout_length": 5, "hidden_sizes": (64, 64)}
PLANE = {"side": 20.0, "num_neighbors": 10}
TAG = (
    problem(
        "A2C, 2000 x 5, 105 agents",
        "a2c",
        "TagContinuous",
        500_000,
        CROWD,
        parameters=PLANE | {"num_taggers": 5, "num_runners": 100},
    ),
    problem(
        "A2C, 2000 x 5, 1000 agents",
        "a2c",
        "TagContinuous",
        100_000,
        CROWD,
        parameters=PLANE | {"num_taggers": 50, "num_runners": 950},
    ),
)
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
options, steps, runs, settings = json.loads(sys.argv[1])
train = purerl.make_train(ppo, purerl.make("CartPole-v1"), PPOConfig(**settings), steps, num_points=1)
key = jax.random.key(0)
began = time.perf_counter()
compiled = jax.jit(train, compiler_options=options).lower(key).compile()
compile_seconds, seconds = time.perf_counter() - began, []
for _ in range(runs + 1):
    began = time.perf_counter()
    jax.block_until_ready(compiled(key))
    seconds.append(time.perf_counter() - began)
print(json.dumps([compile_seconds, seconds[1:]]))
"""


def measure_kernels(request: Request) -> list[Table]:
    """Return kernels and launches of an update, compiled for an H200."""
    title = f"An update on an H200, by its compiler; {kernels.MICROSECONDS} us per kernel"
    missing = kernels.unavailable()
    if missing is not None:
        return [Table(title=title, columns=[("not counted", "text")], rows=[[missing]])]
    rows = []
    for task in ONE:
        factory, cls = registry.algorithm(task.algorithm)
        config = cls(**task.settings)
        update = kernels.compile_update(factory, purerl.make(task.environment, **(task.parameters or {})), config)
        loops = ", ".join(f"{loop.trips or '?'} x {loop.kernels}" for loop in update.loops)
        allowed = config.steps_per_update / (update.kernels * kernels.MICROSECONDS * 1e-6)
        name = f"{task.name}, {task.environment}"
        rows.append([name, config.steps_per_update, loops, update.outside, update.kernels, update.launches, allowed])
    return [Table(title=title, columns=COUNTS, rows=rows)]


def measure_launches(request: Request) -> list[Table]:
    """Return what loops that are CUDA graphs give: the time of a dependent kernel, and the speed of PPO."""
    title = "Loops as CUDA graphs, and as JAX launches them"
    if jax.default_backend() != "gpu":
        return [_missing(title)]
    rows = []
    steps = max(int(100 * request.size), 2) * 2048 * 128
    for options in (None, backend.GRAPHS):
        compile_seconds, seconds = run_process(TRAIN, [options, steps, request.runs, {"num_envs": 2048}])
        kernel = statistics.median(run_process(CHAIN, options))
        rows.append(["graphs" if options else "as JAX", kernel, spread([steps / s for s in seconds]), compile_seconds])
    return [Table(title=title, columns=LAUNCHES, rows=rows)]


def measure_problems(title: str, problems: Sequence[Problem], request: Request) -> list[Table]:
    """Return the speed of training on a GPU, alone or beside others."""
    if jax.default_backend() != "gpu":
        return [_missing(title)]
    return [contest_table(f"{title}, compilation left out", problems, request)]


measure_training, measure_seeds, measure_brax, measure_tag = (
    functools.partial(measure_problems, title, problems)
    for title, problems in (
        ("Training one seed on a GPU", ONE),
        ("Training many seeds on a GPU", MANY),
        ("Training on robots of brax on a GPU", ROBOTS),
        ("Training many agents on a GPU", TAG),
    )
)


def _missing(title: str) -> Table:
    return Table(title=title, columns=[("not measured", "text")], rows=[["there is no GPU here"]])
