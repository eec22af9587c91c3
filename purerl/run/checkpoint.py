"""Checkpoints: a pytree of arrays on disk, written completely or not at all. Orbax is behind this and `orbax_calls`.

A checkpoint is a folder named after its update. It holds plain arrays by path and a few numbers; typed keys are stored
as their raw words. Loading needs the tree that is expected, so nothing in the file decides what is built;
its names, shapes and dtypes are compared before an array is read, and its checksum after.
"""

import contextlib
import math
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from purerl.devices import distributed, memory
from purerl.errors import InputError
from purerl.prng import is_key, typed
from purerl.reporting.files import own_folder
from purerl.run import checksums, orbax_calls
from purerl.trust import reading
from purerl.types import Array, PyTree

_UNFINISHED = re.compile(r"[0-9]{9,}\.orbax-checkpoint-tmp.*")


class SaveError(RuntimeError):
    """An error while writing a checkpoint: one line with the cause."""


def save(folder: Path, step: int, tree: PyTree, metadata: dict[str, Any], keep: int = 3) -> Path:
    """Write a checkpoint; it appears under its name only when it is complete.

    Several processes write together, each its own part, into a folder that all see.

    Args:
      folder: the folder of all checkpoints of a run; made if it does not exist.
      step: its name, the number of updates.
      tree: arrays, including typed keys.
      metadata: numbers and text to store with it.
      keep: how many to keep; the oldest ones beyond are removed.

    Returns:
      Where it is.

    Raises:
      InputError: if the folder is a link.
      SaveError: if it cannot be written; the earlier ones are as they were.
    """
    from orbax.checkpoint import v1 as ocp

    distributed.first_does(lambda: str(own_folder(own_folder(folder.parent) / folder.name)))
    arrays = _named_arrays(tree)
    path = folder.resolve() / f"{step:09d}"
    if jax.process_count() == 1:
        arrays = jax.device_get(arrays)
    metadata = {**metadata, "step": step}
    metadata = {**metadata, "checksum": checksums.of_arrays(arrays), "notes": checksums.of_notes(metadata)}
    filled = {name: array for name, array in arrays.items() if array.size}
    if distributed.is_first() and (path.is_symlink() or path.is_file()):
        path.unlink()
    for last in (distributed.several(), True):
        try:
            with orbax_calls.quiet():
                ocp.save(str(path), filled, custom_metadata=metadata, overwrite=True)
            break
        except Exception as error:  # Orbax and TensorStore raise many kinds where a disk does not take it
            remove_unfinished(folder)
            if distributed.is_loss(error):  # although its text may hold words of the operating system
                raise
            if last or not orbax_calls.may_pass(error):
                raise SaveError(f"cannot write {path}: {orbax_calls.disk_reason(error)}") from None
    others = [other for other in steps(folder) if other != step]  # later ones are left from a killed run
    for old in others[: max(0, len(others) - keep + 1)] if jax.process_index() == 0 else []:
        shutil.rmtree(folder / f"{old:09d}")
    return path


def steps(folder: Path) -> list[int]:
    """Return the steps of the complete checkpoints in a folder, ascending; other files are ignored."""
    if folder.is_symlink():
        raise InputError(
            f"{folder} is a link; checkpoints are read from a run's own folder: put the folder itself there"
        )
    numbered = (path for path in folder.glob("*") if re.fullmatch("[0-9]{9,}", path.name))
    found = (int(path.name) for path in numbered if path.is_dir() and not path.is_symlink())
    return sorted(step for step in found if (folder / f"{step:09d}").is_dir())


def newest(folder: Path) -> int:
    """Return the step of the newest complete checkpoint, the same on all processes; 0 without one."""
    return int(distributed.first_does(lambda: str(max(steps(folder), default=0))))


BEST = "best"  # folder of the checkpoint with the highest evaluation, next to the numbered ones


def best_folder(folder: Path) -> Path:
    """Return the folder of a run's best checkpoint."""
    return folder / BEST


def find(folder: Path, which: str | int) -> tuple[Path, int]:
    """Return (the folder that contains it, the step) of one of a run's checkpoints.

    Args:
      folder: the folder of all checkpoints of a run.
      which: "latest", "best" or a step.
    """
    kept, best = steps(folder), steps(best_folder(folder))
    if not kept and not best:
        raise InputError(f"{folder.parent} has no checkpoint yet")
    text = str(which)
    if text == "best":
        if not best:
            raise InputError(f"{folder.parent} has no best checkpoint: train with --keep-best to keep one")
        return best_folder(folder), best[-1]
    if text == "latest" and kept:
        return folder, kept[-1]
    if text.isdecimal() and int(text) in kept:
        return folder, int(text)
    if text.isdecimal() and int(text) in best:
        return best_folder(folder), int(text)
    there = ", ".join(["latest", *(["best"] if best else []), *map(str, kept)])
    raise InputError(f"{folder.parent} has no checkpoint {text}; allowed: {there}")


def best_return(folder: Path) -> float:
    """Return the evaluation return of the best checkpoint, -inf if there is none."""
    found = steps(best_folder(folder))
    value = read_metadata(best_folder(folder), found[-1]).get("evaluation_return") if found else None
    return float(value) if isinstance(value, int | float) else -math.inf


def remove_unfinished(folder: Path) -> None:
    """Remove the remains of a killed `save`."""
    inner = best_folder(folder)
    found = [path for place in (folder, inner) if not place.is_symlink() for path in place.glob("*")]
    for path in [] if folder.is_symlink() else found:
        if _UNFINISHED.fullmatch(path.name):
            path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)


def read_metadata(folder: Path, step: int) -> dict[str, Any]:
    """Return the metadata of a checkpoint; {} if they cannot be read, which `load` then reports."""
    from orbax.checkpoint import v1 as ocp

    path = folder.resolve() / f"{step:09d}"
    _check_files(path)
    with orbax_calls.quiet(), orbax_calls.interrupts_held(), contextlib.suppress(Exception):
        stored: Any = ocp.metadata(str(path))
        found = dict(stored.custom_metadata or {})
        reading.check_plain(found, path)
        return found
    return {}


def _check_files(path: Path) -> None:
    """Raise an `InputError` unless a checkpoint has only folders and regular files, small except for its data."""
    for place, folders, files in os.walk(path):
        for name in folders + files:
            inner = Path(place) / name
            if not (reading.is_folder(inner) or reading.is_file(inner)):
                raise InputError(f"checkpoint {path} is damaged ({inner.relative_to(path)} is not a regular file)")
            if name in files and Path(place).name != "d":  # notes and indices, which are read completely, unlike data
                reading.check(inner, reading.NOTES)


def _check_chunks(path: Path, stored: Any) -> None:
    """Raise an `InputError` if a stored part of an array is larger than the array."""
    for name, array in stored.metadata.items():
        chunk = getattr(getattr(array, "storage_metadata", None), "chunk_shape", None)
        if chunk is not None and math.prod(chunk) > 2 * math.prod(array.shape) + 1024:
            raise InputError(f"checkpoint {path} is damaged (the parts of '{name}' are larger than it is)")


def members(folder: Path, step: int) -> int:
    """Return the number of agents in a checkpoint."""
    found = read_metadata(folder, step).get("members")
    if not isinstance(found, int) or not 0 < found < 2**31:
        raise InputError(f"checkpoint {folder / f'{step:09d}'} is damaged (its metadata cannot be read)")
    return found


def load(
    folder: Path, step: int, template: PyTree, added: Mapping[str, str] = MappingProxyType({})
) -> tuple[PyTree, dict[str, Any]]:
    """Load a checkpoint.

    Args:
      folder: the folder of all checkpoints of a run.
      step: which.
      template: the tree that is expected; its leaves have shapes and dtypes (`jax.eval_shape` gives one).
      added: arrays that checkpoints of an earlier version do not have -> the number that each is filled with there.

    Returns:
      (the tree of arrays and typed keys, the metadata).

    Raises:
      InputError: if it is damaged, holds another tree, or was renamed.
    """
    path = folder.resolve() / f"{step:09d}"
    others = [other for other in steps(folder) if other != step]
    hint = f"remove that folder to go on from update {others[-1]}" if others else "there is no other one"
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    expected = {_name(keys): _raw_struct(leaf) for keys, leaf in leaves}
    filled = {name: struct for name, struct in expected.items() if struct.size}
    found, metadata = _read(path, filled, hint, tuple(added))
    found |= {name: np.zeros(struct.shape, struct.dtype) for name, struct in expected.items() if not struct.size}
    arrays = {name: found[name] for name in expected if name in found}
    checksum, notes, named = (metadata.pop(name, None) for name in ("checksum", "notes", "step"))
    whole = notes == checksums.of_notes(metadata | {"step": named}) and checksums.agrees(checksum, arrays)
    if not whole:
        raise InputError(f"checkpoint {path} is damaged (its checksum is wrong); {hint}")
    if named != step:
        raise InputError(f"checkpoint {path} is that of update {named}: name its folder {named:09d}, or {hint}")
    for name, number in added.items():
        struct = expected.get(name)
        if struct is not None and name not in arrays:
            arrays[name] = np.full(struct.shape, arrays[number], struct.dtype)
    tree = jax.tree.unflatten(structure, [_as(leaf, arrays[_name(keys)]) for keys, leaf in leaves])
    return tree, metadata


def _read(
    path: Path, expected: dict[str, Any], hint: str, optional: tuple[str, ...]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return (arrays, metadata) of a checkpoint; its arrays are read only if they are the expected ones."""
    from orbax.checkpoint import v1 as ocp

    _check_files(path)
    other = f"checkpoint {path} does not fit this version of purerl or its config:"
    try:
        with orbax_calls.quiet(), orbax_calls.interrupts_held():
            stored: Any = ocp.metadata(str(path))
            there = {name: (tuple(array.shape), np.dtype(array.dtype)) for name, array in stored.metadata.items()}
            metadata = dict(stored.custom_metadata or {})
            _check_chunks(path, stored)
            reading.check_plain(metadata, path)
    except InputError:
        raise
    except Exception as error:  # Orbax and TensorStore raise many kinds for a damaged file
        raise InputError(f"checkpoint {path} is damaged ({orbax_calls.reason(error)}); {hint}") from None
    expected = {name: struct for name, struct in expected.items() if name in there or name not in optional}
    for name, struct in expected.items():
        if name not in there:
            raise InputError(f"{other} it has no '{name}'")
        shape, dtype = there[name]
        if (shape, dtype) != (struct.shape, struct.dtype):
            raise InputError(f"{other} '{name}' is {dtype}{list(shape)} instead of {struct.dtype}{list(struct.shape)}")
    more = sorted(there.keys() - expected.keys())
    if more:
        raise InputError(f"{other} it has '{more[0]}' as well")
    needed, free = memory.nbytes(expected), memory.host_free()
    if needed > free:
        raise InputError(f"checkpoint {path} takes {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free")
    try:
        with orbax_calls.quiet(), orbax_calls.interrupts_held():
            # Asked for as NumPy's, arrays come whole, whatever devices held them.
            wanted = {name: np.empty(struct.shape, struct.dtype) for name, struct in expected.items()}
            arrays: Any = ocp.load(str(path), wanted)
            return {name: np.asarray(array) for name, array in arrays.items()}, metadata
    except Exception as error:  # as above
        raise InputError(f"checkpoint {path} is damaged ({orbax_calls.reason(error)}); {hint}") from None


def _name(keys: tuple) -> str:
    return jax.tree_util.keystr(keys, simple=True, separator="/")


def _named_arrays(tree: PyTree) -> dict[str, PyTree]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(keys): jax.random.key_data(leaf) if is_key(leaf) else leaf for keys, leaf in leaves}


def _raw_struct(leaf: PyTree) -> jax.ShapeDtypeStruct:
    if is_key(leaf):
        leaf = jax.eval_shape(jax.random.key_data, leaf)
    return jax.ShapeDtypeStruct(leaf.shape, np.dtype(leaf.dtype))


def _as(leaf: PyTree, array: np.ndarray) -> Array | np.ndarray:
    return typed(array, leaf) if is_key(leaf) else array
