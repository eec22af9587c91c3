"""Trees as text: what a sweep or an evolution made in Python consists of, so that a command can go on with it.

Classes and functions are written by their name, "module:name", everything in them by value. Reading imports the
modules that are named, as `purerl evolve module:function` does, and runs nothing else. Functions of other packages
come back with numbers and arrays as arguments, never with text: a file cannot prepare a call of `os.system`.
"""

import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl import registry
from purerl.errors import InputError
from purerl.types import PyTree

FILE = "python.json"


def describe(tree: PyTree) -> Any:
    """Return a tree as what JSON can hold; `build` is its inverse.

    Args:
      tree: of dataclasses, dicts, lists, tuples, named tuples, functions, partial ones, arrays and plain values.

    Raises:
      InputError: for what has no name, such as a lambda or a class of the script that runs.
    """
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    if isinstance(tree, np.ndarray | np.generic | jax.Array):
        values = np.asarray(tree)
        return {"array": values.tolist(), "dtype": values.dtype.name}
    if isinstance(tree, dict):
        return {"dict": {name: describe(value) for name, value in tree.items()}}
    if type(tree) in (list, tuple):
        return {type(tree).__name__: [describe(value) for value in tree]}
    if isinstance(tree, functools.partial):
        return {"partial": _name(type(tree)), "of": [describe(part) for part in (tree.func, tree.args, tree.keywords)]}
    if isinstance(tree, type):
        return {"name": _name(tree)}
    if isinstance(tree, tuple) or dataclasses.is_dataclass(tree):
        whole: Any = tree
        names = whole._fields if isinstance(tree, tuple) else [field.name for field in dataclasses.fields(whole)]
        return {"class": _name(type(tree)), "fields": {name: describe(getattr(tree, name)) for name in names}}
    return {"name": _name(tree)}


def build(described: Any) -> PyTree:
    """Return the tree that `describe` was given.

    Raises:
      InputError: if what it names is not there any more.
    """
    if not isinstance(described, dict):
        return described
    match described:
        case {"array": values, "dtype": dtype}:
            return jnp.asarray(values, dtype)
        case {"dict": own}:
            return {name: build(value) for name, value in own.items()}
        case {"list": own}:
            return [build(value) for value in own]
        case {"tuple": own}:
            return tuple(build(value) for value in own)
        case {"name": path}:
            return registry.load(path)
        case {"partial": path, "of": parts}:
            function, arguments, keywords = (build(part) for part in parts)
            if not _ours(function) and any(isinstance(leaf, str) for leaf in jax.tree.leaves((arguments, keywords))):
                raise InputError(f"{_name(function)} is not purerl's: it takes numbers and arrays from a file, no text")
            kind = {"functools:partial": functools.partial}.get(path, jax.tree_util.Partial)
            return kind(function, *arguments, **keywords)
        case {"class": path, "fields": own}:
            cls = registry.load(path)
            if not isinstance(cls, type) or not (dataclasses.is_dataclass(cls) or issubclass(cls, tuple)):
                raise InputError(f"{path} is no dataclass")
            return cls(**{name: build(value) for name, value in own.items()})
    raise InputError(f"cannot read {str(described)[:60]}")


def write(path: Path, **trees: PyTree) -> str:
    """Write trees by name into a JSON file; where reading it would not give them back, write and return why not."""
    described: dict[str, Any] = {}
    try:
        described = {name: describe(tree) for name, tree in trees.items()}
        again = {name: build(entry) for name, entry in json.loads(json.dumps(described)).items()}
        why = "" if jax.tree.structure(again) == jax.tree.structure(trees) else "it would read back as something else"
    except InputError as error:
        why = str(error)
    path.write_text(json.dumps({"why_not": why} if why else described) + "\n", encoding="utf-8")
    return why


def read(path: Path) -> dict[str, PyTree]:
    """Return the trees of a file of `write`.

    Raises:
      InputError: if it cannot be read, or says why not.
    """
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        if "why_not" not in described:
            return {name: build(entry) for name, entry in described.items()}
    except InputError:
        raise
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    why = described["why_not"]
    raise InputError(f"{path.parent} was made in Python, which alone can go on there (resume=True): {why}")


def _ours(thing: Any) -> bool:
    return (getattr(thing, "__module__", None) or "").partition(".")[0] == "purerl"


def _name(thing: Any) -> str:
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    path = f"{module}:{name}"
    if module in (None, "__main__") or name is None or not name.isidentifier() or registry.load(path) is not thing:
        raise InputError(f"{name or repr(thing)} has no name by which another process finds it: put it into a module")
    return path
