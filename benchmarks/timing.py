"""Timing: medians with their range, of programs that take turns so that a busy machine slows all alike."""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax


def in_turn(calls: Sequence[Callable[[], Any]], runs: int = 7) -> list[list[float]]:
    """Return the seconds of each of `runs` calls of each program, A B A B, after one round that is not counted."""
    for call in calls:
        jax.block_until_ready(call())
    rounds = [[_timed(call) for call in calls] for _ in range(runs)]
    return [list(column) for column in zip(*rounds, strict=True)]


def _timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - began


def processor_seconds(call: Callable[[], Any], runs: int = 7) -> float:
    """Return the least processor time of a call on a CPU, right on a busy machine, too; elsewhere the clock's."""
    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    jax.block_until_ready(call())
    seconds = []
    for _ in range(runs):
        began = clock()
        jax.block_until_ready(call())
        seconds.append(clock() - began)
    return min(seconds)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the range of some measurements, as they are kept."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Return the median and the range of the ratios of measurements that were taken in turn."""
    return spread([a / b for a, b in zip(ours, theirs, strict=False)])


def tell(line: str) -> None:
    """Say on the error stream how far a measurement has come."""
    print(f"  {line}", file=sys.stderr, flush=True)
