"""A trained policy as a file that needs no purerl: StableHLO, ONNX, or its numbers as safetensors.

The function is (observation) -> action for every number N of observations [N, ...]; of a recurrent policy (observation,
carry) -> (action, carry), whose carry begins as zeros. Actions are greedy. An observation of several parts has an
argument for each, in the order of their names.
"""

import importlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from purerl.errors import InputError
from purerl.multi_agent.joint import KNOWN, field_of
from purerl.prng import is_key
from purerl.reporting.files import write_whole
from purerl.run.trained_run import TrainedRun
from purerl.types import PyTree

NEEDS = {".stablehlo": ("flatbuffers",), ".onnx": ("jax2onnx", "onnx"), ".safetensors": ()}
PLATFORMS = ("cpu", "cuda", "tpu")  # where a StableHLO file runs


def check(path: Path) -> None:
    """Hold a path to what `save` can write, before anything is loaded.

    Raises:
      InputError: for another ending, a folder that is not there, or a package that is not installed.
    """
    suffix = path.suffix.lower()
    if suffix not in NEEDS:
        raise InputError(f"{path} ends in '{suffix}'; an exported policy must end in {', '.join(NEEDS)}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}")
    missing = [package for package in NEEDS[suffix] if importlib.util.find_spec(package) is None]
    if missing:
        raise InputError(f"{suffix} needs {missing[0]}: pip install 'purerl[export]'")


def save(run: TrainedRun, path: Path, seed: int | None = None) -> None:
    """Write a run's policy into a file of the kind that its ending says.

    Args:
      run: trained.
      path: ending in .stablehlo, .onnx or .safetensors.
      seed: whose agent; None: the first one that did not fail.

    Raises:
      InputError: if it cannot be written so.
    """
    check(path)
    policy, suffix = run.policy(seed), path.suffix.lower()
    if suffix == ".safetensors":
        content = safetensors(numbers(policy.agent), {"algorithm": run.settings.algorithm})
    else:
        function, arguments = acting(run, policy.agent)
        content = stablehlo(function, arguments) if suffix == ".stablehlo" else onnx(function, arguments)
    try:
        write_whole(path, lambda file: file.write(content))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def acting(run: TrainedRun, agent: PyTree) -> tuple[Callable[..., Any], list[jax.ShapeDtypeStruct]]:
    """Return (a function of a batch's arrays, those of one observation and of its carry).

    Raises:
      InputError: if what a recurrent policy remembers does not begin as zeros.
    """
    algorithm, seen = run.trainer.algorithm, run.plan.env.observation_space.struct
    carry = jax.device_get(algorithm.initial_carry(1))
    if any(np.any(x) for x in jax.tree.leaves(carry)):
        raise InputError("the carry of this policy does not begin as zeros, so it cannot be exported")
    parts, structure = jax.tree.flatten(seen)
    carries, carry_structure = jax.tree.flatten(carry)

    def function(*arrays: Any) -> Any:
        observation = structure.unflatten(arrays[: len(parts)])
        memory = carry_structure.unflatten(arrays[len(parts) :])
        action, memory, _ = algorithm.act(agent, memory, jax.random.key(0), observation, False)
        return (action, *jax.tree.leaves(memory)) if carries else action

    one = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in parts]
    return function, one + [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in carries]


def stablehlo(function: Callable[..., Any], one: list[jax.ShapeDtypeStruct]) -> bytes:
    """Return the bytes of `jax.export`, which `jax.export.deserialize` reads, for any number of observations."""
    (batch,) = jax.export.symbolic_shape("batch")
    arguments = [jax.ShapeDtypeStruct((batch, *x.shape), x.dtype) for x in one]
    return bytes(jax.export.export(jax.jit(function), platforms=PLATFORMS)(*arguments).serialize())


def onnx(function: Callable[..., Any], one: list[jax.ShapeDtypeStruct]) -> bytes:
    """Return a model of ONNX; `batch` is the name of its first axis.

    Raises:
      InputError: if a part of the network has no counterpart there.
    """
    to_onnx = importlib.import_module("jax2onnx").to_onnx
    arguments = [jax.ShapeDtypeStruct(("batch", *x.shape), x.dtype) for x in one]  # type: ignore[arg-type]
    try:
        return to_onnx(function, arguments).SerializeToString()
    except Exception as error:  # whatever the converter raises
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"this policy cannot be written as ONNX ({first[:120]}); .stablehlo takes every policy"
        ) from None


def numbers(agent: PyTree) -> dict[str, np.ndarray]:
    """Return the parameters and statistics of an agent by name, such as params/actor/kernel; all where none is one."""
    leaves = [(path, x) for path, x in jax.tree_util.tree_leaves_with_path(agent) if not is_key(x)]
    of = jax.tree_util.keystr
    known = [pair for pair in leaves if any(f".{part}" in field_of(of(pair[0])) for part in _FIELDS)]
    name = lambda path: of(path, simple=True, separator="/")
    return {name(path): np.asarray(x) for path, x in known or leaves}


_FIELDS = tuple(field.removeprefix(".") for field in KNOWN)
_TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def safetensors(arrays: dict[str, np.ndarray], about: dict[str, str]) -> bytes:
    """Return the bytes of a file of safetensors: the length of a JSON header, the header, and the numbers."""
    header: dict[str, Any] = {"__metadata__": about}
    data, end = b"", 0
    for name, array in sorted(arrays.items()):
        data += (part := np.ascontiguousarray(array).tobytes())
        header[name] = {"dtype": _TYPES[str(array.dtype)], "shape": list(array.shape), "data_offsets": [end, len(data)]}
        end += len(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data
