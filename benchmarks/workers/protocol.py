"""The protocol between `python -m benchmarks` and a framework that it measures: JSON, a line at a time.

A script of this folder reads a task, builds it and answers {"compile": seconds}. Then, for every line with a seed, it
trains once and answers {"seconds": ..., "return": ..., "memory": ..., "curve": [[environment steps, return], ...]}:
`memory` is the most bytes that the process has had by then, and the curve is empty unless the line says "SEED curve".
Output of libraries goes to stderr. Each script runs in its own Python, next to this file, and imports nothing from
purerl.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any


def serve(
    build: Callable[[dict[str, Any]], tuple[float, Callable[[int], Any]]],
    read: Callable[[Any], float],
    time_of: Callable[[Any], float] | None = None,
    curve: Callable[[Any], list[tuple[int, float]]] = lambda _: [],
) -> None:
    """Answer until the input ends.

    Args:
      build: task -> (compile seconds, a call that trains from a seed until all that it computes is there).
      read: the result of such a call -> the return that was reached. It is not timed.
      time_of: the result -> its seconds, if each call compiles again. Default: wall-clock time of the call.
      curve: the result -> the returns of evaluations during or after the run, if there are any.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values: Any) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    seconds, train = build(json.loads(sys.stdin.readline()))
    answer(compile=seconds)
    for line in sys.stdin:
        seed, *wanted = line.split()
        began = time.perf_counter()
        done = train(int(seed))
        seconds = time_of(done) if time_of else time.perf_counter() - began
        memory = peak_memory()  # before evaluation, which is not part of training
        answer(seconds=seconds, memory=memory, **{"return": read(done)}, curve=curve(done) if wanted else [])


def peak_memory() -> int:
    """Return the most memory that this process has had at once, in bytes: a GPU's, if it computes there."""
    device = sys.modules["jax"].devices()[0] if "jax" in sys.modules else None
    if device is not None and device.platform == "gpu":
        return device.memory_stats()["peak_bytes_in_use"]
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def compiled(
    train: Callable[[Any], Any], example: Any, options: dict[str, Any] | None = None
) -> tuple[float, Callable[[Any], Any]]:
    """Return (seconds it took to compile, the compiled program), of a function that JAX traces; options as jit's."""
    import jax

    began = time.perf_counter()
    program = jax.jit(train, compiler_options=options).lower(example).compile()
    return time.perf_counter() - began, lambda *args: jax.block_until_ready(program(*args))


def compiled_seeds(train: Callable[[Any], Any], task: dict[str, Any]) -> tuple[float, Callable[[int], Any]]:
    """Return (seconds it took to compile, seed -> result) of a training run from a key, for one or several seeds."""
    import jax

    several = jax.vmap(train) if task["seeds"] > 1 else lambda keys: train(keys[0])
    keys = lambda seed: jax.random.split(jax.random.PRNGKey(seed), task["seeds"])
    seconds, program = compiled(several, keys(0))
    return seconds, lambda seed: program(keys(seed))


def renamed(settings: dict[str, Any], names: str) -> dict[str, Any]:
    """Return the settings that `names` lists, such as "num_envs=NUM_ENVS ...", by their names in the framework."""
    pairs = (pair.split("=") for pair in names.split())
    return {theirs: settings[ours] for ours, theirs in pairs if ours in settings}


def name_in_suite(task: dict[str, Any]) -> str:
    """Return the environment's name in its suite: "ant" for "brax/ant"."""
    return task["environment"].partition("/")[2]


def last_tenth(returns: Any, done: Any, tail: int = 0) -> float:
    """Return the mean of the returns [updates, ...] of the episodes that ended in the last tenth of the updates.

    If `tail` is given, only the last `tail` of them count. NaN if no episode ended.
    """
    import numpy as np

    tail = tail or max(len(returns) // 10, 1)
    returns, done = np.asarray(returns)[-tail:], np.asarray(done)[-tail:]
    return float(returns[done].mean()) if done.any() else float("nan")
