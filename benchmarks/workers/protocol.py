"""How a framework that is measured talks with `python -m benchmarks`: JSON, a line at a time.

It reads a task, builds it and answers {"compile": seconds}. Then, for every line with a seed, it trains once and
answers {"seconds": ..., "return": ...}. What libraries print goes to stderr. The scripts in this folder run in a Python
of their own, each beside this file, and need none of purerl.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any


def serve(build: Callable[[dict[str, Any]], tuple[float, Callable[[int], Any]]], read: Callable[[Any], float]) -> None:
    """Answer until there is nothing more to read.

    Args:
      build: task -> (compile seconds, a call that trains from a seed until all that it computes is there).
      read: what such a call returns -> the return that was reached. It is not timed.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values: float) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    seconds, train = build(json.loads(sys.stdin.readline()))
    answer(compile=seconds)
    for line in sys.stdin:
        began = time.perf_counter()
        done = train(int(line))
        seconds = time.perf_counter() - began
        answer(seconds=seconds, **{"return": read(done)})


def compiled(
    train: Callable[[Any], Any], example: Any, options: dict[str, Any] | None = None
) -> tuple[float, Callable[[Any], Any]]:
    """Return (seconds it took to compile, the compiled program), of a function that JAX traces; options as jit's."""
    import jax

    began = time.perf_counter()
    program = jax.jit(train, compiler_options=options).lower(example).compile()
    return time.perf_counter() - began, lambda *args: jax.block_until_ready(program(*args))


def last_tenth(returns: Any, ended: Any) -> float:
    """Return the mean of the returns [updates, ...] of the episodes that ended in the last tenth of the updates."""
    import numpy as np

    tail = max(len(returns) // 10, 1)
    returns, ended = np.asarray(returns)[-tail:], np.asarray(ended)[-tail:]
    return float(returns[ended].mean()) if ended.any() else float("nan")
