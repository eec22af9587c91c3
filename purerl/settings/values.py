"""Values of settings: texts and TOML values converted to the types of a dataclass's fields, and back to text."""

import math
import types
import typing
from collections.abc import Callable
from typing import Any

from purerl.errors import InputError, describe


def from_text(text: str) -> Any:
    """Return the value of a flag's text: a number, true, false, none, a comma-separated list, or the text itself."""
    folded = text.strip().casefold()
    if folded in ("true", "false"):
        return folded == "true"
    if folded in ("none", "null"):
        return None
    if "," in text:
        return tuple(from_text(part) for part in text.strip("()[] ").split(",") if part.strip())
    for number in (int, float):
        try:
            found = number(folded)
        except ValueError:
            continue
        return found if isinstance(found, float) or -(2**63) <= found < 2**63 else float(folded)
    return text


def to_text(value: object) -> str:
    """Return the text that `from_text` reads as this value."""
    if isinstance(value, tuple):
        return ",".join(to_text(entry) for entry in value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def coerce(value: object, hint: object, what: str) -> Any:
    """Return `value` converted to the type `hint`.

    Integers pass as floats, whole floats such as 1e6 as integers, one value as a list of one; "none" is None where
    None is allowed.
    """
    if hint is Any:
        return value
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None and hint is str:
        return "none"  # as text it is one of the choices, or told with them
    if value is None or (value == "none" and type(None) in parts):
        if type(None) in parts:
            return None
        raise InputError(f"{what} is none; it must be: {describe(hint)}")
    for part in parts:
        if typing.get_origin(part) is tuple:
            entries = value if isinstance(value, tuple | list) else (value,)
            return tuple(coerce(entry, typing.get_args(part)[0], what) for entry in entries)
        if typing.get_origin(part) is Callable and callable(value):
            return value
        if part is str and not isinstance(value, tuple | list) and not callable(value):
            return str(value)
        if part is bool and isinstance(value, bool):
            return value
        if part is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if part is int and isinstance(value, int | float) and not isinstance(value, bool) and _whole(value):
            return int(value)
    raise InputError(f"{what} is {value!r}; it must be: {describe(hint)}")


def _whole(value: int | float) -> bool:
    return isinstance(value, int) or (math.isfinite(value) and value == int(value))
