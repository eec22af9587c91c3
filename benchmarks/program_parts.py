"""Compile time by program: seconds to trace and to compile each program of a run, in a separate process."""

import time
from typing import Any

import jax

from benchmarks import tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import progress, run_process
from purerl.run.plan import make_plan
from purerl.settings.runs import settings
from purerl.xla import backend

SEEDS = (1, 2048)
RUN = {"num_envs": 4, "rollout_length": 128}
COLUMNS = tables.columns("program: text; seeds: count; traced: seconds; compiled: seconds")
PROCESS = """
import json, sys
from benchmarks.program_parts import seconds_of_parts
print(json.dumps(seconds_of_parts(json.loads(sys.argv[1]))))
"""


def measure(request: Request) -> list[Table]:
    """Return the seconds of each program of a run of PPO on CartPole-v1, 4 x 128, one after the other."""
    rows = []
    for seeds in (1, 2) if request.tiny else SEEDS:
        parts = run_process(PROCESS, seeds)
        progress(f"{seeds} seeds: {sum(traced + compiled for _, traced, compiled in parts):.1f} s")
        rows += [[name, seeds, traced, compiled] for name, traced, compiled in parts]
    return [Table(title="Compiling PPO, 4 x 128, CartPole-v1, by part", columns=COLUMNS, rows=rows)]


def seconds_of_parts(seeds: int) -> list[tuple[str, float, float]]:
    """Return (program, seconds to trace and lower it, seconds to compile it) of a run's programs, in turn."""
    began = time.perf_counter()
    jax.block_until_ready(jax.jit(lambda x: x @ x)(jax.numpy.ones((8, 8))))
    first = time.perf_counter() - began
    plan = make_plan(settings("ppo", "CartPole-v1", RUN | {"seeds": seeds}))
    parts: Any = plan.parts
    start = backend.start_options(plan.shapes.state)
    zero = jax.numpy.int32(0)
    programs = (
        ("start", lambda: parts.init.lower(parts.seeds, parts.setup), start),
        ("advance", lambda: parts.lower_training(plan.shapes), None),
        (
            "evaluate",
            lambda: parts.evaluate.lower(plan.shapes.state.agent, parts.seeds, zero, zero, parts.setup),
            None,
        ),
    )
    found = [("the first product of the process", 0.0, first)]
    for name, lower, options in programs:
        began = time.perf_counter()
        lowered = lower()
        traced = time.perf_counter()
        lowered.compile(compiler_options=options)
        found.append((name, traced - began, time.perf_counter() - traced))
    return found
