"""Fields of frozen dataclasses that are pytrees: numbers are leaves, shapes are static."""

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import jax
from jax.core import Tracer

from purerl.errors import InputError

T = TypeVar("T")


def number(
    *,
    default: Any = dataclasses.MISSING,
    doc: str = "",
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> Any:
    """Declare a field that is a leaf: a number or an array, which may be traced, vmapped and differentiated.

    Args:
      default: its value when none is given.
      doc: one line, shown by the command line.
      at_least, at_most, above, below: the bounds that `validate` holds concrete values to.
    """
    bounds = {"at_least": at_least, "at_most": at_most, "above": above, "below": below}
    return dataclasses.field(default=default, metadata={"doc": doc, "bounds": bounds})


def static(
    *,
    default: Any = dataclasses.MISSING,
    doc: str = "",
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[Any, ...] | None = None,
) -> Any:
    """Declare a field that is part of a program's shape: hashable, never traced; another value is another program.

    Args:
      default: its value when none is given.
      doc: one line, shown by the command line.
      at_least, at_most: bounds of a static number, or of each number in a tuple.
      choices: the values allowed, if they can be listed.
    """
    metadata = {
        "doc": doc,
        "static": True,
        "bounds": {"at_least": at_least, "at_most": at_most, "above": None, "below": None},
        "choices": choices,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(number, static, dataclasses.field))
def pytree(cls: type[T]) -> type[T]:
    """Make `cls` a frozen, keyword-only dataclass and register it as a pytree.

    Fields declared by `static` are part of the tree's structure; all others are leaves (or subtrees).
    """
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True, kw_only=True)(cls))


def is_static(field: dataclasses.Field) -> bool:
    """Return whether a field was declared by `static`."""
    return bool(field.metadata.get("static", False))


def validate(tree: Any, what: str) -> None:
    """Hold the concrete values of a dataclass to the bounds and choices that its fields declare.

    Traced values are not looked at: they have no value yet.

    Args:
      tree: a dataclass made by `pytree`.
      what: its name in the message.

    Raises:
      InputError: naming the field, its value and what is allowed.
    """
    for field in dataclasses.fields(tree):
        value = getattr(tree, field.name)
        choices = field.metadata.get("choices")
        if choices is not None and value not in choices:
            allowed = ", ".join(str(choice) for choice in choices)
            raise InputError(f"{what}: {field.name} is {value!r}; allowed: {allowed}")
        bounds = field.metadata.get("bounds")
        if bounds is None or not any(limit is not None for limit in bounds.values()):
            continue
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
        x != x
        or (low is not None and x < low)
        or (high is not None and x > high)
        or (above is not None and x <= above)
        or (below is not None and x >= below)
    )
    if wrong:
        words = {"at_least": "at least", "at_most": "at most", "above": "above", "below": "below"}
        allowed = " and ".join(f"{words[name]} {limit:g}" for name, limit in bounds.items() if limit is not None)
        raise InputError(f"{what} is {value}; it must be {allowed}")
