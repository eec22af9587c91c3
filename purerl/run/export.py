"""A trained policy as a file that does not need purerl: StableHLO, ONNX, or safetensors with numbers and settings.

The function is (observation) -> action for every number N of observations [N, ...]; for a recurrent policy it is
(observation, carry) -> (action, carry), and the initial carry is zeros. Actions are greedy. An observation of several
parts becomes several arguments, in the order of their names.
"""

import importlib
import importlib.util
import logging
from pathlib import Path
from typing import Protocol

import jax
import numpy as np

from purerl.errors import InputError, install
from purerl.reporting.files import check_named, write_named
from purerl.run import agents
from purerl.run.trained_run import TrainedRun, check_acts_alone
from purerl.settings import agent_file
from purerl.types import Array, PyTree
from purerl.xla import switches

NEEDS = {".stablehlo": ("flatbuffers",), ".onnx": ("jax2onnx", "onnx"), agent_file.SUFFIX: ()}
PLATFORMS = ("cpu", "cuda", "tpu")  # where a StableHLO file runs


class BatchedAct(Protocol):
    """The greedy policy as a function of arrays."""

    def __call__(self, *arrays: Array) -> PyTree:
        """Return the actions [B, ...] and the carry for observations [B, ...] and the previous carry."""
        ...


def check(path: Path) -> None:
    """Raise an `InputError` before anything is loaded if `save` cannot write the path.

    Raises:
      InputError: for another ending, a folder that is not there, or a package that is not installed.
    """
    check_named(path, "an exported policy", NEEDS)
    suffix = path.suffix.lower()
    missing = [package for package in NEEDS[suffix] if importlib.util.find_spec(package) is None]
    if missing:
        raise InputError(f"{suffix} needs {missing[0]}: {install('export')}")


def save(run: TrainedRun, path: Path, seed: int | None = None) -> None:
    """Write a run's policy to a file in the format of its extension."""
    check(path)
    agent, suffix = run.agent_of(seed), path.suffix.lower()
    if suffix == agent_file.SUFFIX:
        content = agents.content(run, agent, run.first_seed if seed is None else seed)
    else:
        check_acts_alone(run)
        function, arguments = acting(run, agent)
        content = stablehlo(function, arguments) if suffix == ".stablehlo" else onnx(function, arguments)
    write_named(path, content)


def acting(run: TrainedRun, agent: PyTree) -> tuple[BatchedAct, list[jax.ShapeDtypeStruct]]:
    """Return (a function of a batch's arrays, the arrays of one observation, the arrays of its carry)."""
    (algorithm, agent), seen = run.trainer.player(agent), run.plan.stage.observation_space.struct
    carry = jax.device_get(algorithm.initial_carry(1))
    if any(np.any(x) for x in jax.tree.leaves(carry)):
        raise InputError("the carry of this policy does not begin as zeros, so it cannot be exported")
    parts, structure = jax.tree.flatten(seen)
    carries, carry_structure = jax.tree.flatten(carry)

    def function(*arrays: Array) -> PyTree:
        observation = structure.unflatten(arrays[: len(parts)])
        memory = carry_structure.unflatten(arrays[len(parts) :])
        with switches.off("convolution"):  # for any number of images, on any device
            action, memory, _ = algorithm.act(agent, memory, jax.random.key(0), observation, False)
        return (action, *jax.tree.leaves(memory)) if carries else action

    one = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in parts]
    return function, one + [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in carries]


def stablehlo(function: BatchedAct, one: list[jax.ShapeDtypeStruct]) -> bytes:
    """Return bytes for `jax.export.deserialize`, a policy for any number of observations."""
    (batch,) = jax.export.symbolic_shape("batch")
    arguments = [jax.ShapeDtypeStruct((batch, *x.shape), x.dtype) for x in one]
    return bytes(jax.export.export(jax.jit(function), platforms=PLATFORMS)(*arguments).serialize())


def onnx(function: BatchedAct, one: list[jax.ShapeDtypeStruct]) -> bytes:
    """Return an ONNX model; `batch` is the name of its first axis."""
    for name in ("jax2onnx", "onnx_ir"):  # they warn of parts for other libraries, with tracebacks
        logging.getLogger(name).setLevel(logging.ERROR)
    to_onnx = importlib.import_module("jax2onnx").to_onnx
    arguments = [jax.ShapeDtypeStruct(("batch", *x.shape), x.dtype) for x in one]  # type: ignore[arg-type]
    try:
        return to_onnx(function, arguments).SerializeToString()
    except Exception as error:  # whatever the converter raises
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"this policy cannot be written as ONNX ({first[:120]}); .stablehlo works for every policy"
        ) from None
