"""Compile time by phase: PPO's programs on CartPole, compiled for a CPU and for an H200.

XLA logs how long its passes and the compilation of each kernel take. The H200's compiler needs no GPU; see `kernels`.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp

import purerl
from benchmarks import kernels, tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import progress
from purerl.algos.ppo import PPOConfig, ppo
from purerl.loop.train import advance
from purerl.training import make_trainer
from purerl.xla import backend

PARTS = ("start", "advance", "evaluate")
LOGS = {
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": "hlo_pass_pipeline=1,gpu_compiler=1,nvptx_compiler=1,cpu_compiler=1,ir_compiler=1",
}
BEGIN = "compilation begins"
TOLD = {  # what XLA logs: a column
    "GpuCompiler::RunHloPasses": "passes",
    "Running HLO passes on": "passes",
    "HLO pass: priority-fusion": "fusion",
    "HLO pass: fusion": "fusion",
    "NVPTXCompiler::CompileTargetBinary - CompileToPtx": "llvm",
    "Compiled LLVM module:": "llvm",
    "NVPTXCompiler::CompileTargetBinary - PtxToCubin": "assembled",
}
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
COLUMNS = tables.columns(
    "compiler: text; program: text; traced and lowered: seconds; passes: seconds; of them fusion: seconds; "
    "kernels: count; LLVM: seconds; assembled: seconds; compiled, elapsed: seconds"
)
PROCESS = "import sys; from benchmarks import passes; passes.compile_part(*sys.argv[1:])"


def measure(request: Request) -> list[Table]:
    """Return the seconds of each program's compilation by phase; those of kernels are summed over threads."""
    missing = kernels.unavailable()
    compilers = ("CPU",) if missing else ("CPU", "H200")
    rows = []
    for compiler in compilers:
        for part in PARTS:
            traced, compiled, log = compiled_with_log(compiler, part)
            seconds, number = phases(log)
            progress(f"{compiler}, {part}: {compiled:.1f} s")
            split = [seconds["passes"], seconds["fusion"], number, seconds["llvm"], seconds["assembled"] or None]
            rows.append([compiler, part, traced, *split, compiled])
    return [Table(title="Compiling PPO, 4 x 128, CartPole-v1, by phase", columns=COLUMNS, rows=rows)]


def compiled_with_log(compiler: str, part: str) -> tuple[float, float, str]:
    """Return (seconds traced and lowered, seconds compiled, XLA's log of the compilation), in a process of its own."""
    line = [sys.executable, "-c", PROCESS, compiler, part]
    result = subprocess.run(line, check=True, capture_output=True, text=True, env={**os.environ, **LOGS})
    traced, compiled = json.loads(result.stdout.splitlines()[-1])
    return traced, compiled, result.stderr.partition(BEGIN)[2]


def compile_part(compiler: str, part: str) -> None:
    """Compile a program, and print the seconds."""
    jax.config.update("jax_enable_compilation_cache", False)
    on_gpu = compiler == "H200"
    with backend.traced_for("gpu") if on_gpu else contextlib.nullcontext():
        trainer: Any = make_trainer(ppo, purerl.make("CartPole-v1"), PPOConfig())
        key = jax.eval_shape(lambda: jax.random.key(0))
        state = jax.eval_shape(trainer.init, key)
        function, arguments = {
            "start": (trainer.init, (key,)),
            "advance": (lambda state, n: advance(trainer, state, n), (state, jax.ShapeDtypeStruct((), jnp.int32))),
            "evaluate": (lambda agent, key: trainer.evaluate(agent, key, num_episodes=32), (state.agent, state.key)),
        }[part]
        if on_gpu:
            arguments = kernels.there(arguments)
        options: dict[str, Any] = (
            backend.start_options(state) if part == "start" else backend.compiler_options()
        ) or {}
        began = time.perf_counter()
        lowered = jax.jit(function).lower(*arguments)
        traced = time.perf_counter()
        print(BEGIN, file=sys.stderr, flush=True)
        lowered.compile(compiler_options=options | ({"xla_gpu_autotune_level": 0} if on_gpu else {}))
    print(json.dumps([traced - began, time.perf_counter() - traced]))


def phases(log: str) -> tuple[dict[str, float], int]:
    """Return (seconds of each column of `TOLD`, the number of kernels compiled) of a log of XLA."""
    seconds = dict.fromkeys(TOLD.values(), 0.0)
    number = 0
    for match in re.finditer(r"\] +(.*?) time: ([\d.]+) (us|ms|s|min)\b", log):
        column = next((column for words, column in TOLD.items() if match[1].startswith(words)), None)
        exact = not match[1].startswith("HLO pass") or match[1] in TOLD
        if column and exact:
            seconds[column] += float(match[2]) * UNITS[match[3]]
            number += column == "llvm"
    return seconds, number
