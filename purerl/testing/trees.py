"""Comparisons of pytrees by the names of their parts."""

import traceback
from collections.abc import Callable, Mapping
from typing import TypeVarTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError, line_of
from purerl.prng import is_key
from purerl.types import PyTree

Ts = TypeVarTuple("Ts")


def paths(tree: PyTree) -> dict[str, PyTree]:
    """Return the leaves of a tree by their paths, such as ".position" or "['food'][0]"."""
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def describe(leaf: PyTree) -> str:
    """Return a leaf's dtype and shape, such as "float32[3, 4]"."""
    if not hasattr(leaf, "dtype"):
        return type(leaf).__name__
    return f"{leaf.dtype}[{', '.join(map(str, leaf.shape))}]"


def same_struct(what: str, given: object, wanted: object, source: str) -> None:
    """Check that a tree has the structure, shapes and dtypes of another.

    Args:
      what: the name of `given` in the message.
      given, wanted: trees of arrays or `jax.ShapeDtypeStruct`.
      source: where `wanted` comes from.

    Raises:
      InputError: naming the first part that differs.
    """
    ours, theirs = paths(given), paths(wanted)
    for path in ours:
        if path not in theirs:
            raise InputError(f"{what}{path} is not in {source}, which has {_names(theirs)}")
    for path, leaf in theirs.items():
        if path not in ours:
            raise InputError(f"{what}{path} is missing: it is in {source}")
        if describe(ours[path]) != describe(leaf):
            raise InputError(f"{what}{path} is {describe(ours[path])}; in {source} it is {describe(leaf)}")
    if jax.tree.structure(given) != jax.tree.structure(wanted):
        raise InputError(
            f"{what} is {_kind(given)}; in {source} it is {_kind(wanted)}, and the two must be of one type"
        )


def _names(leaves: Mapping[str, object]) -> str:
    return ", ".join(leaves) if any(leaves) else "one array" if leaves else "no arrays"


def _kind(tree: PyTree) -> str:
    text = str(jax.tree.structure(tree)).removeprefix("PyTreeDef(").removesuffix(")")
    return text if len(text) < 100 else text[:97] + "..."


def host(tree: PyTree) -> PyTree:
    """Copy a tree of arrays into NumPy's memory; random keys become their words."""
    return jax.tree.map(lambda x: np.asarray(jax.random.key_data(x) if is_key(x) else x), tree)


def device(tree: PyTree, like: PyTree) -> PyTree:
    """Convert back from `host`: return arrays, with keys where `like` has keys."""

    def restore(x: np.ndarray, template: PyTree) -> jax.Array:
        if is_key(template):
            return jax.random.wrap_key_data(jnp.asarray(x), impl=jax.random.key_impl(template))
        return jnp.asarray(x)

    return jax.tree.map(restore, tree, like)


def difference(a: PyTree, b: PyTree, tolerance: float = 0.0) -> str | None:
    """Return the first difference of two trees of NumPy arrays: its path and both values, or None.

    Integers and booleans must be equal, floats within `tolerance`, absolute and relative; NaN equals NaN.
    """
    theirs = paths(b)
    for path, x in paths(a).items():
        y = theirs[path]
        close = np.array_equal(x, y, equal_nan=np.issubdtype(x.dtype, np.inexact))
        if not close and tolerance and np.issubdtype(x.dtype, np.inexact):
            close = np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True)
        if not close:
            apart = np.argwhere(~np.isclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True))
            at = tuple(apart[0]) if len(apart) else ()
            return f"{path or 'it'}{list(map(int, at)) if at else ''}: {x[at]} against {y[at]}"
    return None


def missing(what: str, error: NotImplementedError) -> str:
    """Return a message about a missing implementation: `what`, or a function of another package that it calls."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    if last.filename.endswith("purerl/types.py"):
        return f"{what} is not implemented"
    return f"{what} fails: {last.name}() is not implemented"


def traced(what: str, function: Callable[[*Ts], PyTree], *args: *Ts) -> PyTree:
    """Return the shapes and dtypes of a call's result, by tracing.

    Raises:
      InputError: saying why it cannot be traced, and in which line.
    """
    try:
        return jax.eval_shape(function, *args)
    except InputError:
        raise
    except NotImplementedError as error:
        raise InputError(f"{missing(what, error)}{line_of(error)}") from None
    except jax.errors.ConcretizationTypeError as error:
        raise InputError(
            f"{what} asks for the value of a traced array, as an `if`, `while`, `int()` or `bool()` on it does"
            f"{line_of(error)}: use jnp.where or jax.lax"
        ) from None
    except jax.errors.TracerArrayConversionError as error:
        raise InputError(f"{what} gives a traced array to NumPy{line_of(error)}: use jax.numpy") from None
    except Exception as error:  # whatever a user's code raises
        first = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise InputError(f"{what} fails: {type(error).__name__}: {first}{line_of(error)}") from None
