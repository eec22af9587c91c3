"""Timing of programs in turn, so that a busy machine slows all alike; JAX's compilations; separate processes."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax


def in_turn(calls: Sequence[Callable[[], Any]], runs: int = 7) -> list[list[float]]:
    """Return the seconds of each of `runs` calls of each program, A B A B, after one round that is not counted."""
    for call in calls:
        jax.block_until_ready(call())
    rounds = [[seconds_of(call) for call in calls] for _ in range(runs)]
    return [list(column) for column in zip(*rounds, strict=True)]


def seconds_of(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of one call, until its arrays are ready."""
    began = clock()
    jax.block_until_ready(call())
    return clock() - began


def compiled(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, float]:
    """Return (the compiled program of a function of these arguments or shapes, seconds); options as `jax.jit`'s."""
    began = time.perf_counter()
    program = jax.jit(function, **options).lower(*args).compile()
    return program, time.perf_counter() - began


def processor_seconds(call: Callable[[], Any], runs: int = 7) -> float:
    """Return the least processor time of a call on a CPU, right on a busy machine, too; elsewhere the clock's."""
    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    jax.block_until_ready(call())
    return min(seconds_of(call, clock) for _ in range(runs))


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the range of some measurements, as a cell of a table."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Return the median and the range of the ratios of measurements that were made in turn."""
    return spread([a / b for a, b in zip(ours, theirs, strict=False)])


def progress(line: str) -> None:
    """Print on the error stream how far a measurement is."""
    print(f"  {line}", file=sys.stderr, flush=True)


def compilations() -> list[str]:
    """Return a list to which JAX adds the name of each program that it compiles from now on."""
    names: list[str] = []

    def note(event: str, duration_secs: float, **about: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(str(about["fun_name"]))

    jax.monitoring.register_event_duration_secs_listener(note)
    return names


def run_process(code: str, argument: Any) -> Any:
    """Run Python code in a process of its own, with `argument` as JSON in sys.argv[1]; return its last line of JSON."""
    line = [sys.executable, "-c", code, json.dumps(argument)]
    done = subprocess.run(line, check=True, capture_output=True, text=True, env=without_cache())
    return json.loads(done.stdout.splitlines()[-1])


def without_cache() -> dict[str, str]:
    """Return this process's environment variables, except those of the cache of compiled programs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("JAX_COMPILATION_CACHE")}
