"""Programs on a GPU: kernels and graph launches of an update, from the compiler; and the speed, if there is a GPU."""

import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

import jax

import purerl
from benchmarks import kernels, tables
from benchmarks.contest import Problem
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import run_process, spread
from benchmarks.training import BRAX, BREAKOUT, CRAFTAX, DQN, PPO, PQN, contest_table, problem
from purerl import registry
from purerl.xla import backend

ROOT = Path(__file__).parents[1]
COUNTS = tables.columns(
    "update of: text; environment steps: count; loops: turns x kernels: text; kernels outside: count; "
    "kernels, all: count; launches: count; moved: bytes; steps/s that both allow: rate"
)
TESTS = tables.columns("test: text; outcome: text; seconds: seconds")
LAUNCHES = tables.columns("loops: text; a dependent kernel: seconds; PPO, 2048 x 128, steps/s: rate; compile: seconds")
SMALL, LARGE = {"num_envs": 4, "rollout_length": 128} | PPO, {"num_envs": 2048, "rollout_length": 128} | PPO
ONE = (  # one seed
    problem("PPO, 4 x 128", "ppo", "CartPole-v1", 250_000, SMALL),
    problem("PPO, 2048 x 128", "ppo", "CartPole-v1", 2**25, LARGE),
    problem("PPO, 2048 x 128, MLP", "ppo", "Breakout-MinAtar", 2**24, LARGE | BREAKOUT),
    problem("DQN, 10 envs, batch 128 per 10 steps", "dqn", "CartPole-v1", 250_000, DQN),
    problem("PQN, 32 x 64, 256 units", "pqn", "CartPole-v1", 200_000, PQN),
)
MANY = (
    problem("PPO, 4 x 128, 2048 seeds", "ppo", "CartPole-v1", 2**16, SMALL, seeds=2048),
    problem("PPO, 4 x 128, 10,000 seeds", "ppo", "CartPole-v1", 2**14, SMALL, seeds=10_000),
)
ROBOT = problem(
    "PPO, 2048 x 16",
    "ppo",
    "brax/ant",
    2**22,
    BRAX | {"num_envs": 2048, "num_minibatches": 32},
    parameters={"backend": "spring"},
)
CROWD = {"num_envs": 2000, "rollout_length": 5, "hidden_sizes": (64, 64)}
GRID = {"size": 20, "full_observation": False, "start": "drawn"}
PLANE = {"side": 20.0, "num_neighbors": 10}
TAG = tuple(
    problem(f"A2C, 2000 x 5, {sum(agents.values())} agents", "a2c", env, steps, CROWD, parameters=world | agents)
    for env, steps, world, agents in (
        ("TagGridWorld", 4_000_000, GRID, {"num_taggers": 4}),
        ("TagGridWorld", 2_000_000, GRID, {"num_taggers": 99}),
        ("TagContinuous", 500_000, PLANE, {"num_taggers": 5, "num_runners": 100}),
        ("TagContinuous", 100_000, PLANE, {"num_taggers": 50, "num_runners": 950}),
    )
)
OPEN_WORLDS = tuple(
    problem("PPO, 1024 x 64", "ppo", f"craftax/{name}-v1", steps, PPO | CRAFTAX | {"num_envs": 1024})
    for name, steps in (("Craftax-Classic-Symbolic", 2**23), ("Craftax-Symbolic", 2**22))
)
TINY = {  # replaces the settings of a problem
    "num_envs": 4,
    "rollout_length": 8,
    "num_minibatches": 2,
    "hidden_sizes": (8, 8),
    "batch_size": 16,
    "replay_capacity": 256,
    "learning_starts": 64,
}
FEW = {"num_taggers": 2, "num_runners": 3}  # at most
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
    """Return kernels, launches and bytes of an update, compiled for an H200."""
    title = (
        f"An update on an H200, by its compiler; {kernels.MICROSECONDS} us per kernel, {kernels.BANDWIDTH / 1e12} TB/s"
    )
    missing = kernels.unavailable()
    if missing is not None:
        return [Table(title=title, columns=[("not counted", "text")], rows=[[missing]])]
    rows = []
    for task in (*ONE, MANY[0]):
        factory, cls = registry.algorithm(task.algorithm)
        config = cls(**task.settings)
        env = purerl.make(task.environment, **(task.parameters or {}))
        update, steps = kernels.compile_update(factory, env, config, task.seeds), task.seeds * config.steps_per_update
        loops = ", ".join(f"{loop.trips or '?'} x {loop.kernels}" for loop in update.loops)
        name, allowed = f"{task.name}, {task.environment}", steps / update.seconds
        costs = [loops, update.outside, update.kernels, update.launches, update.bytes, allowed]
        rows.append([name, steps, *costs])
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


def measure_problem(title: str, task: Problem, request: Request) -> list[Table]:
    """Return the speed of training on a GPU, alone or compared with others."""
    if request.tiny:
        return [contest_table(f"{title}, tiny", [tiny(task)], request)]
    if jax.default_backend() != "gpu":
        return [_missing(title)]
    return [contest_table(f"{title}, compilation left out", [task], request)]


def tiny(task: Problem) -> Problem:
    """Return a problem with few environments, agents, seeds and steps, which any device solves."""
    settings = task.settings | {name: value for name, value in TINY.items() if name in task.settings}
    given = task.parameters or {}
    parameters = given | {name: min(most, given[name]) for name, most in FEW.items() if name in given}
    return task._replace(
        steps=256, settings=settings, parameters=parameters, seeds=min(task.seeds, 2), evaluations=2, episodes=2
    )


def _measures(title: str, *problems: Problem) -> list[functools.partial[list[Table]]]:
    return [functools.partial(measure_problem, title, task) for task in problems]


measure_ppo, measure_wide_ppo, measure_breakout, measure_dqn, measure_pqn = _measures(
    "Training one seed on a GPU", *ONE
)
measure_2048_seeds, measure_10000_seeds = _measures("Training many seeds on a GPU", *MANY)
measure_small_grid, measure_large_grid, measure_small_crowd, measure_large_crowd = _measures(
    "Training many agents on a GPU", *TAG
)
(measure_brax,) = _measures("Training on robots of brax on a GPU", ROBOT)
measure_craftax_classic, measure_craftax = _measures("Training on Craftax on a GPU", *OPEN_WORLDS)


def measure_tests(request: Request) -> list[Table]:
    """Return what the tests that need a GPU found; without one they skip themselves."""
    title = "Tests that need a GPU"
    if jax.default_backend() != "gpu" and not request.tiny:
        return [_missing(title)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "-n", str(min(4, os.cpu_count() or 1)), f"--junitxml={report}"]
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, "-m", "gpu", "tests/test_gpu.py"], cwd=ROOT, stdout=sys.stderr
        )
        seconds, cases = time.perf_counter() - began, list(ElementTree.parse(report).iter("testcase"))
    rows = [[case.get("name"), _outcome(case), float(case.get("time", 0.0))] for case in cases]
    return [Table(title=title, columns=TESTS, rows=[*rows, ["all, side by side", "", seconds]])]


def _outcome(case: ElementTree.Element) -> str:
    told = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
    return "passed" if told is None else f"{told.tag}: {told.get('message', '')}"[:200]


def _missing(title: str) -> Table:
    return Table(title=title, columns=[("not measured", "text")], rows=[["there is no GPU here"]])
