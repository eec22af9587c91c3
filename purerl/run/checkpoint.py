"""Checkpoints: a pytree of arrays on disk, whole or not at all. All of Orbax is behind this file.

A checkpoint is a folder named after its update. It holds plain arrays by path and a few numbers beside them; typed keys
are stored as their raw words. Loading needs the tree that is expected, so nothing in the file decides what is built.
"""

import contextlib
import logging
import shutil
import zlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

from purerl.devices import distributed
from purerl.errors import InputError
from purerl.prng import is_key, typed
from purerl.types import Array, PyTree


def save(folder: Path, step: int, tree: PyTree, metadata: dict[str, Any], keep: int = 3) -> Path:
    """Write a checkpoint; it appears under its name only when it is complete.

    Several processes write together, each what it holds, into a folder that all see. They store no checksum, as none
    of them sees everything.

    Args:
      folder: of all checkpoints of a run; made where there is none.
      step: its name, the number of updates.
      tree: arrays, typed keys among them.
      metadata: numbers and text to store beside it.
      keep: how many to keep; the oldest ones beyond are removed.

    Returns:
      Where it is.
    """
    from orbax.checkpoint import v1 as ocp

    arrays = _named_arrays(tree)
    path = folder.resolve() / f"{step:09d}"
    if jax.process_count() == 1:
        arrays = jax.device_get(arrays)
        metadata = {**metadata, "checksum": _checksum(arrays)}
    filled = {name: array for name, array in arrays.items() if array.size}
    with _quiet():
        ocp.save(str(path), filled, custom_metadata=metadata, overwrite=True)
    for old in steps(folder)[:-keep] if jax.process_index() == 0 else []:
        shutil.rmtree(folder / f"{old:09d}")
    return path


def steps(folder: Path) -> list[int]:
    """Return the steps of the complete checkpoints in a folder, ascending."""
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit() and path.is_dir())


def newest(folder: Path) -> int:
    """Return the step of the newest complete checkpoint, the same on all processes; 0 without one."""
    return int(distributed.first_does(lambda: str(max(steps(folder), default=0))))


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed `save` left behind."""
    for path in folder.glob("*.orbax-checkpoint-tmp*"):
        shutil.rmtree(path, ignore_errors=True)


def read_metadata(folder: Path, step: int) -> dict[str, Any]:
    """Return the metadata of a checkpoint; none where they cannot be read, which `load` will tell."""
    from orbax.checkpoint import v1 as ocp

    with _quiet(), contextlib.suppress(Exception):
        stored: Any = ocp.metadata(str(folder.resolve() / f"{step:09d}"))
        return dict(stored.custom_metadata or {})
    return {}


def load(folder: Path, step: int, template: PyTree) -> tuple[PyTree, dict[str, Any]]:
    """Read a checkpoint back.

    Args:
      folder: of all checkpoints of a run.
      step: which.
      template: the tree that is expected; its leaves have shapes and dtypes (`jax.eval_shape` gives one).

    Returns:
      (the tree of arrays and typed keys, the metadata).

    Raises:
      InputError: if it is damaged, or holds another tree.
    """
    from orbax.checkpoint import v1 as ocp

    path = folder.resolve() / f"{step:09d}"
    others = [str(other) for other in steps(folder) if other != step]
    hint = f"remove that folder to go on from update {int(others[-1])}" if others else "there is no other one"
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    expected = {_name(keys): _raw_struct(leaf) for keys, leaf in leaves}
    try:
        with _quiet():
            stored: Any = ocp.metadata(str(path))
            # Asked for as NumPy's, arrays come whole, whatever devices held them.
            wanted = {name: np.empty(array.shape, array.dtype) for name, array in stored.metadata.items()}
            arrays: Any = ocp.load(str(path), wanted)
            metadata, found = dict(stored.custom_metadata or {}), {name: np.asarray(x) for name, x in arrays.items()}
    except Exception as error:  # Orbax and TensorStore raise many kinds for a damaged file
        raise InputError(f"checkpoint {path} is damaged ({_first_line(error)}); {hint}") from None
    for name, struct in expected.items():
        if struct.size == 0:
            found[name] = np.zeros(struct.shape, struct.dtype)
        if name not in found:
            raise InputError(f"checkpoint {path} does not fit this version of purerl or its config: it has no '{name}'")
        if (found[name].shape, found[name].dtype) != (struct.shape, struct.dtype):
            description = f"{found[name].dtype}{list(found[name].shape)} instead of {struct.dtype}{list(struct.shape)}"
            raise InputError(
                f"checkpoint {path} does not fit this version of purerl or its config: '{name}' is {description}"
            )
    arrays = {name: found[name] for name in expected}
    checksum = metadata.pop("checksum", None)
    if checksum is not None and checksum != _checksum(arrays):
        raise InputError(f"checkpoint {path} is damaged (its checksum is wrong); {hint}")
    tree = jax.tree.unflatten(structure, [_as(leaf, arrays[_name(keys)]) for keys, leaf in leaves])
    return tree, metadata


def _name(keys: tuple) -> str:
    return jax.tree_util.keystr(keys, simple=True, separator="/")


def _named_arrays(tree: PyTree) -> dict[str, Any]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(keys): jax.random.key_data(leaf) if is_key(leaf) else leaf for keys, leaf in leaves}


def _raw_struct(leaf: Any) -> jax.ShapeDtypeStruct:
    if is_key(leaf):
        leaf = jax.eval_shape(jax.random.key_data, leaf)
    return jax.ShapeDtypeStruct(leaf.shape, np.dtype(leaf.dtype))


def _as(leaf: Any, array: np.ndarray) -> Array | np.ndarray:
    return typed(array, leaf) if is_key(leaf) else array


def _checksum(arrays: dict[str, np.ndarray]) -> int:
    total = 0
    for name in sorted(arrays):
        total = zlib.crc32(np.ascontiguousarray(arrays[name]).view(np.uint8).reshape(-1).data, total)
    return total


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0][:120]


@contextlib.contextmanager
def _quiet():
    """Keep Orbax's progress messages off the screen; errors are raised anyway."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
