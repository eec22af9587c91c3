"""Fields of frozen dataclasses that are pytrees: numbers are leaves, shapes are static."""

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np
from jax.core import Tracer

from purerl.errors import InputError, describe, hints, unknown

T = TypeVar("T")
PyTree = Any  # arrays in dicts, tuples, lists and records, as JAX nests them
MOST_ENTRIES = 64  # longest list of numbers with bounds, such as the units of layers: each is compiled


def number(
    *,
    default: object = dataclasses.MISSING,
    doc: str = "",
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    kw_only: bool = True,
) -> Any:
    """Declare a field that is a leaf: a number or an array, which may be traced, vmapped and differentiated.

    Args:
      default: the default value.
      doc: one line, shown by the command line.
      at_least, at_most, above, below: bounds that `validate` checks for concrete values.
      kw_only: whether the constructor accepts it only by name.

    Returns:
      The field, for a class that `pytree` decorates.

    Example:
      >>> import purerl
      >>> @purerl.pytree
      ... class Pole:
      ...     length: float = purerl.number(default=0.5, above=0.0, doc="half of its length, in m")
      >>> Pole().length
      0.5
    """
    bounds = {"at_least": at_least, "at_most": at_most, "above": above, "below": below}
    return dataclasses.field(default=default, metadata={"doc": doc, "bounds": bounds}, kw_only=kw_only)


def static(
    *,
    default: object = dataclasses.MISSING,
    doc: str = "",
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[object, ...] | None = None,
    or_function: bool = False,
    kw_only: bool = True,
) -> Any:
    """Declare a field that shapes the program: hashable and never traced. A new value compiles a new program.

    Args:
      default: the default value.
      doc: one line, shown by the command line.
      at_least, at_most: bounds of a static number, or of each number in a tuple.
      choices: the allowed values, if they can be listed.
      or_function: whether a function is also allowed.
      kw_only: whether the constructor accepts it only by name.

    Returns:
      The field, for a class that `pytree` decorates.

    Example:
      >>> import jax
      >>> import purerl
      >>> @purerl.pytree
      ... class Grid:
      ...     size: int = purerl.static(default=5, at_least=2, doc="cells of an edge")
      >>> Grid(size=7).size, jax.tree.leaves(Grid())
      (7, [])
    """
    metadata = {
        "doc": doc,
        "static": True,
        "bounds": {"at_least": at_least, "at_most": at_most, "above": None, "below": None},
        "choices": choices,
        "or_function": or_function,
    }
    return dataclasses.field(default=default, metadata=metadata, kw_only=kw_only)


def tables(*, doc: str, flag: str, metavar: str, words: tuple[str, ...] = ()) -> Any:
    """Declare a field of an extension's options that holds tables: ((name, ((key, value), ...)), ...).

    Args:
      doc: one line, shown by the command line.
      flag: its flag, which may be repeated, such as "--set".
      metavar: the form of the flag's value, such as "GROUP.NAME=VALUE".
      words: keys whose values are text, whatever they look like.
    """
    metadata = {"doc": doc, "static": True, "tables": True, "flag": flag, "metavar": metavar, "words": words}
    return dataclasses.field(default=(), metadata=metadata)


def table_fields(cls: type) -> tuple[str, ...]:
    """Return the names of the fields that were declared by `tables`."""
    return tuple(field.name for field in dataclasses.fields(cls) if field.metadata.get("tables"))


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(number, static, tables, dataclasses.field)
)
def pytree(cls: type[T]) -> type[T]:
    """Make `cls` a frozen, keyword-only dataclass and register it as a pytree.

    Fields declared by `static` are part of the tree's structure; all others are leaves (or subtrees). A subclass that
    restates a field with a plain value, `num_envs: int = 8`, changes its default and keeps the rest of its declaration.

    Returns:
      The class.

    Example:
      >>> import jax
      >>> import purerl
      >>> @purerl.pytree
      ... class Cart:
      ...     mass: float = purerl.number(default=1.0)
      ...     wheels: int = purerl.static(default=4)
      >>> jax.tree.leaves(Cart(mass=2.0))
      [2.0]
    """
    own = "__init__" in vars(cls)
    _keep_declarations(cls)
    made = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    if not own:
        _tell_wrong_arguments(made)
    return jax.tree_util.register_dataclass(made)


def _keep_declarations(cls: type) -> None:
    """Declare each field that gives an inherited one a plain value in the same way as the inherited one."""
    bases = [base for base in reversed(cls.__mro__[1:]) if dataclasses.is_dataclass(base)]
    inherited = {field.name: field for base in bases for field in dataclasses.fields(base)}
    for name, hint in vars(cls).get("__annotations__", {}).items():
        plain = name in vars(cls) and not isinstance(vars(cls)[name], dataclasses.Field)
        if plain and name in inherited and typing.get_origin(hint) is not typing.ClassVar:
            setattr(cls, name, dataclasses.field(default=vars(cls)[name], metadata=inherited[name].metadata))


def _tell_wrong_arguments(cls: type) -> None:
    """Let the constructor of a dataclass accept lists for tuples, and report wrong names in one line."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    shapes = frozenset(name for name, field in fields.items() if is_static(field))
    positional = [name for name, field in fields.items() if not field.kw_only]
    construct = cls.__init__

    @functools.wraps(construct)
    def init(self: Any, *args: Any, **values: Any) -> None:
        if list in map(type, values.values()):
            values = {n: _as_tuple(value) if n in shapes else value for n, value in values.items()}
        try:
            construct(self, *args, **values)
        except TypeError:
            wrong = [name for name in values if name not in fields]
            missing = [n for n, f in fields.items() if _is_required(f) and n not in values][len(args) :]
            if wrong:
                raise unknown(f"field of {cls.__name__}", wrong[0], fields) from None
            if len(args) > len(positional):
                raise InputError(
                    f"{cls.__name__} takes its fields by name, such as {cls.__name__}({next(iter(fields), '')}=...)"
                ) from None
            if missing:
                raise InputError(f"{cls.__name__} needs {' and '.join(missing)}") from None
            raise

    cls.__init__ = init


def _as_tuple(value: object) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def _is_required(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def is_static(field: dataclasses.Field) -> bool:
    """Return whether a field was declared by `static`."""
    return bool(field.metadata.get("static", False))


def validate(tree: Any, what: str, only_static: bool = False) -> None:
    """Check the concrete values of a dataclass against the bounds and choices that its fields declare.

    Traced values are not looked at: they have no value yet.

    Args:
      tree: a dataclass made by `pytree`.
      what: its name in the message.
      only_static: only the fields that are part of the tree's structure; the others may hold anything inside JAX.

    Raises:
      InputError: naming the field, its value and what is allowed.
    """
    wanted = _hints_if_known(type(tree))
    for field in dataclasses.fields(tree):
        if only_static and not is_static(field):
            continue
        value, hint = getattr(tree, field.name), wanted.get(field.name, Any)
        or_function = field.metadata.get("or_function", False)
        if not isinstance(value, Tracer) and not fits(value, hint, is_static(field)):
            raise InputError(f"{what}: {field.name} is {value!r}; it must be: {describe(hint)}")
        choices = field.metadata.get("choices")
        if choices is not None and value not in choices and not (or_function and callable(value)):
            allowed = ", ".join(str(choice) for choice in choices) + (" or a function" if or_function else "")
            raise InputError(f"{what}: {field.name} is {value!r}; allowed: {allowed}")
        bounds = field.metadata.get("bounds")
        if bounds is None or not any(limit is not None for limit in bounds.values()):
            if isinstance(value, float) and value != value:
                raise InputError(f"{what}: {field.name} is nan; it must be a number")
            continue
        if isinstance(value, tuple) and len(value) > MOST_ENTRIES:
            raise InputError(f"{what}: {field.name} has {len(value):,} entries; it must have at most {MOST_ENTRIES}")
        for entry in value if isinstance(value, tuple) else (value,):
            _check_bounds(entry, bounds, f"{what}: {field.name}")


def _check_bounds(value: Any, bounds: dict[str, float | None], what: str) -> None:
    if value is None or isinstance(value, Tracer) or getattr(value, "ndim", 0) > 0:
        return
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise InputError(f"{what} is {value!r}; it must be a number")
    x = float(value)
    low, high, above, below = (bounds[name] for name in ("at_least", "at_most", "above", "below"))
    wrong = (
        not math.isfinite(x)
        or (low is not None and x < low)
        or (high is not None and x > high)
        or (above is not None and x <= above)
        or (below is not None and x >= below)
    )
    if wrong:
        words = {"at_least": "at least", "at_most": "at most", "above": "above", "below": "below"}
        allowed = " and ".join(f"{words[name]} {limit:g}" for name, limit in bounds.items() if limit is not None)
        raise InputError(f"{what} is {value}; it must be {allowed or 'finite'}")


@functools.cache
def _hints_if_known(cls: type) -> dict[str, Any]:
    try:
        return hints(cls)
    except Exception:  # a name in a user's annotation that nobody finds
        return {}


def fits(value: object, hint: object, exact: bool = True) -> bool:
    """Return whether a value has a field's type, for types made of numbers, texts, lists and None.

    Args:
      value: a concrete value.
      hint: the field's type.
      exact: 4.0 is not an integer, and an array is not a number.
    """
    if isinstance(hint, types.UnionType):
        return any(fits(value, part, exact) for part in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return isinstance(value, tuple) and all(fits(entry, inner, exact) for entry in value)
    if typing.get_origin(hint) is Callable:
        return callable(value)
    if hint not in (bool, int, float, str, type(None)):
        return True
    if not exact and hasattr(value, "dtype"):
        return hint in (bool, int, float)
    if hint in (bool, str, type(None)):
        return isinstance(value, np.bool_ if hint is bool and hasattr(value, "dtype") else hint)
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return number and (
        hint is float or isinstance(value, int | np.integer) or (not exact and float(value).is_integer())
    )
