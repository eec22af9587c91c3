"""A discovered objective as a file of safetensors: its numbers, and as metadata what it was evolved from.

Reading one runs nothing: the file names an entry of `purerl.catalog.objectives`, whose start gives the structure, or a
module:name that the user trusts.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from purerl import registry, trust, zoo
from purerl.catalog.objectives import OBJECTIVES, ObjectiveEntry
from purerl.errors import InputError, unknown
from purerl.settings import agent_file
from purerl.trust import reading

if TYPE_CHECKING:
    import numpy as np

NAME = f"objective{agent_file.SUFFIX}"  # in the folder of an evolution
ZOO = "zoo"


class Discovered(NamedTuple):
    """An objective, and the part of an algorithm that it is."""

    entry: ObjectiveEntry
    objective: Any


def load(name: str) -> Discovered:
    """Return the objective of a name: one that `purerl evolve` starts from, zoo/NAME, a file or an evolution's folder.

    Raises:
      InputError: if there is none, or the file is not one of an objective.
    """
    import jax  # help pages do not need it

    with jax.ensure_compile_time_eval():  # a trainer may be made while a program is traced
        if name in OBJECTIVES:
            return _start(name)
        path = _path_of(name)
        about = agent_file.about(path)
        if "objective" not in about:
            raise InputError(
                f"{path} is not the file of an objective; purerl evolve writes one, {NAME}, into its folder"
            )
        start = _start(trust.checked(about["objective"], path))
        return start._replace(objective=_filled(start.objective, agent_file.arrays(path), path))


def content_of(name: str) -> bytes | None:
    """Return the content of an objective's file; None for one that `purerl evolve` starts from."""
    return None if name in OBJECTIVES else reading.content(_path_of(name), reading.TABLE, follow=True)


def kept_name(name: str) -> str:
    """Return the name of the copy of an objective's file in a job's folder, which may keep several."""
    return f"objective-{hashlib.sha256(name.encode()).hexdigest()[:8]}{agent_file.SUFFIX}"


def check_rule(name: str, factory: Any, fix: str) -> None:
    """Raise an `InputError`, which ends with `fix`, if an algorithm learns by an evolved rule and has none."""
    parts = {entry.argument for entry in OBJECTIVES.values() if entry.algorithm == name}
    if not parts & set(getattr(factory, "keywords", {})):
        raise InputError(f"{name} learns by an evolved {min(parts)} and has none: {fix}")


def check_unused(name: str, entry: ObjectiveEntry, given: Iterable[str]) -> None:
    """Raise an `InputError` if one of the given settings is among those that the objective replaces."""
    for setting in given:
        if setting in entry.unused:
            raise InputError(f"objective '{name}' replaces {setting}, which would have no effect: leave it out")


def content(name: str, objective: object, about: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """Return the bytes of a file.

    Args:
      name: what the objective was evolved from, as `purerl evolve` takes it.
      objective: a pytree.
      about: {name: text}, further metadata.
    """
    return agent_file.pack(_leaves(objective), {"objective": name, **about})


def _start(name: str) -> Discovered:
    import jax

    entry = registry.objective(name)
    return Discovered(entry=entry, objective=registry.load(entry.start)(jax.random.key(0)))


def _path_of(name: str) -> Path:
    path = reading.path_of(name)
    if path.parent == Path(ZOO) and not path.exists():
        return zoo.objective_path(path.name)
    if path.is_dir() and (path / NAME).exists():
        reading.check(path / NAME, reading.AGENT)  # a file that the user names may be a link, one in a folder may not
        return path / NAME
    if path.suffix != agent_file.SUFFIX or not path.is_file():
        raise unknown(
            "objective", name, [*OBJECTIVES, *(f"{ZOO}/{known}" for known in zoo.objectives()), "an evolution's folder"]
        )
    return path


def _leaves(tree: object) -> "dict[str, np.ndarray]":
    """Return the float leaves of a tree by their path."""
    import jax
    import numpy as np

    found = jax.tree_util.tree_leaves_with_path(tree)
    named = {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in found}
    return {name: x.astype(np.float32) for name, x in named.items() if np.issubdtype(x.dtype, np.floating)}


def _filled(start: Any, arrays: "Mapping[str, np.ndarray]", path: Path) -> Any:
    """Return a start with the numbers of a file."""
    import jax
    import jax.numpy as jnp

    reading.check_shapes(
        path, {name: (x.shape, x.dtype) for name, x in arrays.items()}, {n: x.shape for n, x in _leaves(start).items()}
    )
    reading.check_finite(path, arrays)
    with_path = lambda path, leaf: arrays.get(jax.tree_util.keystr(path, simple=True, separator="."), leaf)
    return jax.tree.map(jnp.asarray, jax.tree_util.tree_map_with_path(with_path, start))
