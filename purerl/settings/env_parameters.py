"""The parameters of an environment, from a table or flags, with the types of its fields."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from purerl import registry
from purerl.catalog.environments import ENVIRONMENTS
from purerl.errors import InputError, hints, unknown
from purerl.settings.values import coerce
from purerl.types import Environment


def check_known(environment: str) -> None:
    """Raise an `InputError` if a name is not an environment of purerl, of a suite or of a module."""
    if "/" not in environment and ":" not in environment and environment not in ENVIRONMENTS:
        raise registry.unknown_environment(environment)


def environment_class(environment: str) -> type | None:
    """Return the class of a native or user's environment; None for a suite's."""
    if "/" in environment and not registry.is_own(environment):
        return None
    return registry.environment_class(environment)


def of_name(environment: str, table: Mapping[str, object], where: str = "") -> dict[str, Any]:
    """Return the parameters of an environment given by name, with the types of its fields if it has any.

    Args:
      environment: its id or "module:Class".
      table: {name: value}.
      where: the text before the parameter in an error, such as "config.toml: ".

    Raises:
      InputError: for a name that it does not have, or a value of another type.
    """
    if not isinstance(table, Mapping):
        raise InputError(f"{where}env is {table!r}; it must be a table of the environment's parameters")
    cls = environment_class(environment) if table else None
    return _typed(environment, hints(cls) if dataclasses.is_dataclass(cls) else None, table, where)


def of_object(env: Environment, table: Mapping[str, object]) -> dict[str, Any]:
    """Return values for the fields of an environment that is an object; errors as in `of_name`."""
    return _typed(type(env).__name__, hints(type(env)) if dataclasses.is_dataclass(env) else {}, table)


def _typed(
    owner: str, known: Mapping[str, object] | None, table: Mapping[str, object], where: str = ""
) -> dict[str, Any]:
    """Convert values to the types that are known; None: any name and any type."""
    for name in table:
        if known is not None and name not in known:
            raise unknown(f"parameter of {owner}", name, known)
    return {name: coerce(x, Any if known is None else known[name], f"{where}env.{name}") for name, x in table.items()}
