"""Kernels, bytes and graph launches of a program on an H200, from the compiler, without the GPU.

    python -m benchmarks.kernels ppo CartPole-v1      one update with the default settings
    python -m benchmarks.kernels ppo CartPole-v1 --seeds 2048 --purejaxrl ../purejaxrl

With JAX's CUDA plugin (`purerl[gpu-compile]`), JAX compiles for a GPU that is only described. The NVIDIA H200 is
described here as in openxla/xla, `target_config/specs/h200.txtpb`. Without the chip, XLA does not autotune, and sorts
use a slower algorithm. The number of kernels determines the cost of small programs, because each kernel waits for the
one before. The bytes that kernels read and write in memory determine the cost of programs with many agents.
"""

import contextlib
import dataclasses
import importlib
import importlib.util
import math
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import jax

from benchmarks import hlo
from purerl import registry
from purerl.commands.cli import main
from purerl.errors import InputError
from purerl.training import make_trainer
from purerl.types import AlgorithmFactory, Config, Environment, PyTree
from purerl.xla import backend

MICROSECONDS = 1.4  # per dependent kernel in a graph: PPO, 4 x 128, took 3.24 ms for 2,329 kernels on an H200
BANDWIDTH = 4.8e12  # bytes/s of memory
OPTIONS = {
    **backend.GRAPHS,
    "xla_gpu_autotune_level": 0,
    "xla_dump_hlo_as_text": True,
}
# For each number type: its code in XLA, clock in GHz, units per core, operations per clock.
SCALAR = ((4, 1.98, 64, 1), (8, 1.98, 64, 1), (10, 1.98, 128, 2), (11, 1.98, 128, 1), (12, 1.98, 64, 1))
MATRIX = ((2, 1.83, 4, 1024), (6, 1.83, 4, 1024), (10, 1.83, 4, 512), (11, 1.83, 4, 256), (12, 1.98, 4, 32))
H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  memory_bandwidth: 4800000000000 l2_cache_size: 52428800 device_memory_size: 151397597184
  registers_per_core_limit: 65536 registers_per_block_limit: 65536 device_address_bits: 64
  cuda_compute_capability { major: 9 feature_extension: ACCELERATED_FEATURES }
  scalar_unit_description { %s } matrix_unit_description { %s }
  device_vendor: "NVIDIA Corporation" name: "NVIDIA H200 141GB HBM3e"
  driver_version: "13.0.0" runtime_version: "13.0.0" compile_time_toolkit_version: "13.0.0"
  dnn_version: "9.10.0" cub_version: "3.1.2"
}
platform_name: "CUDA" device_description_str: "NVIDIA H200 141GB HBM3e"
dnn_version_info { major: 9 minor: 10 } runtime_version { major: 13 minor: 0 patch: 0 }
"""


class Loop(NamedTuple):
    """A loop of a compiled program."""

    trips: int | None  # number of iterations, if the compiler knows it
    kernels: int  # kernels per iteration, without inner loops
    bytes: int  # bytes that these kernels move
    depth: int  # number of loops around it


class GPUProgram(NamedTuple):
    """A program compiled for a GPU."""

    loops: tuple[Loop, ...]  # in their order
    outside: int  # kernels outside of loops
    outside_bytes: int
    launches: int  # CUDA graphs, single kernels, and iterations of loops that run on the host

    @property
    def kernels(self) -> int:
        """Return the kernels of a run; a loop of unknown length turns once."""
        return self.outside + sum(turns * loop.kernels for turns, loop in zip(self.turns, self.loops, strict=True))

    @property
    def bytes(self) -> int:
        """Return the bytes that a run moves."""
        return self.outside_bytes + sum(turns * loop.bytes for turns, loop in zip(self.turns, self.loops, strict=True))

    @property
    def seconds(self) -> float:
        """Return the least seconds of a run, in which either kernels follow one another or memory is busy."""
        return max(self.kernels * MICROSECONDS * 1e-6, self.bytes / BANDWIDTH)

    @property
    def turns(self) -> list[int]:
        """Return how often each loop turns in a run, the loops around it included."""
        around: list[int] = []
        turns = []
        for loop in self.loops:
            around = [*around[: loop.depth], loop.trips or 1]
            turns.append(math.prod(around))
        return turns


def unavailable() -> str | None:
    """Return why there is no compiler for a GPU here, or None if there is one."""
    if not any(importlib.util.find_spec(f"jax_cuda{major}_plugin") for major in (13, 12)):
        return "JAX's CUDA plugin is not installed (pip install 'purerl[gpu-compile]')"
    try:
        _chip()
    except NotImplementedError:
        return "JAX's CUDA plugin did not start, as happens where there is no GPU: set JAX_PLATFORMS=cpu"
    return None


def compile_update(factory: AlgorithmFactory, env: Environment, config: Config, seeds: int = 1) -> GPUProgram:
    """Compile an update of one agent, or of several in parallel, their rollouts included, for one H200."""
    with backend.traced_for("gpu"), backend.side_by_side(seeds):
        trainer = make_trainer(factory, env, config)
        if seeds == 1:
            return compile_for_gpu(trainer.step, jax.eval_shape(trainer.init, jax.random.key(0)))
        states = jax.eval_shape(jax.vmap(trainer.init), _keys(seeds))
        return compile_for_gpu(jax.vmap(trainer.step), states)


def compile_purejaxrl(checkout: Path, settings: dict[str, Any], env: str, seeds: int = 1) -> GPUProgram:
    """Compile two updates of PureJaxRL's PPO, as the benchmarks train it, for one H200: its loops are an update's."""
    sys.path.append(str(Path(__file__).parent / "workers"))
    worker: Any = importlib.import_module("with_purejaxrl")
    steps = 2 * settings["num_envs"] * settings["rollout_length"]
    task = {"algorithm": "ppo", "evolves": False, "environment": env, "steps": steps, "settings": settings}
    train = worker.training(task | {"checkout": str(checkout)})
    return compile_for_gpu(jax.vmap(train), jax.eval_shape(lambda: jax.random.split(jax.random.PRNGKey(0), seeds)))


def _keys(seeds: int) -> Any:
    return jax.eval_shape(lambda: jax.random.split(jax.random.key(0), seeds))


def compile_for_gpu(function: Callable[..., Any], *args: Any) -> GPUProgram:
    """Compile a function for one H200.

    Args:
      function: traceable by JAX.
      args: its arguments, or their shapes.
    """
    shapes = there(args)
    with tempfile.TemporaryDirectory() as folder, _uncached(), backend.traced_for("gpu"):
        compiled = jax.jit(function).lower(*shapes).compile(compiler_options=OPTIONS | {"xla_dump_to": folder})
        plans = sorted(Path(folder).glob("*thunk_sequence*.txt"), key=lambda path: ("after_thunk" in path.name, path))
        return read(compiled.as_text() or "", plans[-1].read_text())


def there(arguments: PyTree) -> PyTree:
    """Return the shapes of some arguments as if they were on the described H200."""
    from jax.experimental import topologies

    mesh = topologies.make_mesh(_chip(), (1,), ("chip",))
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), arguments)


def _chip() -> Any:
    """Return the described H200."""
    from jax.experimental import topologies

    rates = [
        " ".join(
            f"rate_infos {{ key: {k} value {{ clock_rate_ghz: {c} units_per_core: {u} ops_per_clock: {o} }} }}"
            for k, c, u, o in units
        )
        for units in (SCALAR, MATRIX)
    ]
    return topologies.get_topology_desc(platform="cuda", target_config=H200 % tuple(rates), topology="1x1x1")


@contextlib.contextmanager
def _uncached() -> Any:
    """Compile again, because a cached program comes without its plan."""
    name = "jax_enable_compilation_cache"
    before = getattr(jax.config, name)
    jax.config.update(name, False)
    try:
        yield
    finally:
        jax.config.update(name, before)


def read(text: str, plan: str) -> GPUProgram:
    """Count in the text of an optimized program, and in the plan by which it is launched."""
    program = hlo.parse(text)
    loops: list[Loop] = []

    def count(name: str, depth: int) -> tuple[int, int]:
        """Return (kernels, bytes) of a computation."""
        kernels, moved = 0, 0
        for operation in program.computations[name].values():
            if operation.kind == "while":
                body = re.search(r"body=%?([\w.\-]+)", operation.rest)
                trips = re.search(r'known_trip_count":\{"n":"(\d+)"', operation.rest)
                assert body is not None
                index = len(loops)
                inside = count(body[1], depth + 1)
                turns = int(trips[1]) if trips else None
                loops.insert(index, Loop(trips=turns, kernels=inside[0], bytes=inside[1], depth=depth))
            elif operation.kind in ("call", "conditional"):
                called = re.findall(r"(?:to_apply=|branch_computations=\{|, )%?([\w.\-]+)(?=[,}]|$)", operation.rest)
                branches = [count(other, depth) for other in called if other in program.computations]
                kernels, moved = (x + y for x, y in zip((kernels, moved), max(branches, default=(0, 0)), strict=True))
            elif operation.kind not in hlo.NO_KERNEL:
                kernels, moved = kernels + 1, moved + hlo.moved(program, name, operation.name)
        return kernels, moved

    outside, outside_bytes = count(program.entry, 0)
    launches = _launches(plan, [loop.trips or 1 for loop in loops if loop.depth == 0])
    return GPUProgram(loops=tuple(loops), outside=outside, outside_bytes=outside_bytes, launches=launches)


def _launches(plan: str, trips: list[int]) -> int:
    """Return what the host launches: each step of the plan, and each turn of what is in a loop outside of a graph.

    A loop within such a loop counts as one launch per turn of the outer one.
    """
    total, turns, in_body, remaining = 0, 0, False, list(trips)
    for line in plan.splitlines():
        step = re.match(r"^( *)\d+: (k\w+)", line)
        if step is None:
            in_body = line.strip() == "body:"
            continue
        if not step[1]:
            turns = remaining.pop(0) if step[2] == "kWhile" else 0
            total += step[2] != "kWhile"
        elif len(step[1]) == 4 and turns and in_body:
            total += turns
        elif len(step[1]) == 4 and not turns and step[2] == "kWhile":
            remaining.pop(0)  # in a graph
    return total


@click.command(name="kernels")
@click.argument("algorithm")
@click.argument("environment")
@click.option("--seeds", default=1, show_default=True, help="agents side by side")
@click.option("--purejaxrl", type=click.Path(exists=True, path_type=Path), help="checkout whose PPO is counted, too")
def command(algorithm: str, environment: str, seeds: int, purejaxrl: Path | None) -> None:
    """Print what one update of ALGORITHM on ENVIRONMENT costs on an H200, and what one turn of each loop."""
    missing = unavailable()
    if missing is not None:
        raise InputError(missing)
    factory, cls = registry.algorithm(algorithm)
    config = cls()
    found = compile_update(factory, registry.make(environment), config, seeds)
    allowed = seeds * config.steps_per_update / found.seconds
    click.echo(
        f"{found.kernels:,} kernels in {found.launches:,} launches and {found.bytes:,} bytes per update, at "
        f"{MICROSECONDS} us and {BANDWIDTH / 1e12} TB/s {allowed:,.0f} environment steps/s, at most"
    )
    click.echo(loops_of(found))
    if purejaxrl is not None:
        settings = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
        click.echo(f"PureJaxRL:\n{loops_of(compile_purejaxrl(purejaxrl, settings, environment, seeds))}")


def loops_of(program: GPUProgram) -> str:
    """Return a line for each loop of a program, indented where it is in another."""
    lines = [f"{'  ' * x.depth}{x.trips or '?'} turns of {x.kernels} kernels, {x.bytes:,} bytes" for x in program.loops]
    return "\n".join(lines)


if __name__ == "__main__":
    main(command=command, name="python -m benchmarks.kernels")
