"""The options of extensions among a run's settings: their owners and their types."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from purerl import registry
from purerl.catalog.extensions import EXTENSIONS
from purerl.errors import InputError, hints, told, unknown
from purerl.fields import table_fields, validate
from purerl.loop.extension import Extension, bound, check_extension, in_use
from purerl.settings.values import coerce


def rows(names: Iterable[str] = ()) -> tuple[Extension, ...]:
    """Return the extensions that a run may use, outermost first: the named ones, then the built-in ones.

    Args:
      names: the user's extensions, each as "module:object" in a trusted module.
    """
    found = [*map(_of_user, names), *map(registry.load, EXTENSIONS.values())]
    owners: dict[str, str] = {}
    for row in found:
        for name in hints(row.options):
            if name in owners:
                raise InputError(f"extension {row.name} has the option {name}, as {owners[name]} has: rename it")
            owners[name] = row.name
    return tuple(found)


def named(values: Mapping[str, Any]) -> list[str]:
    """Return the names in settings that may be a module:name: extensions, and the algorithms in tables."""
    given = values.get("extension", ())
    tables = [table for value in values.values() if isinstance(value, Mapping) for table in value.values()]
    algorithms = [table.get("algorithm", "") for table in tables if isinstance(table, Mapping)]
    return list(map(str, [*((given,) if isinstance(given, str) else given or ()), *algorithms]))


def _of_user(name: str) -> Extension:
    found = registry.load(name)
    check_extension(found, name)
    return found


def tables_of(extensions: Sequence[Extension]) -> tuple[str, ...]:
    """Return the names of the options that are tables of settings, such as "groups"."""
    return tuple(name for row in extensions for name in table_fields(row.options))


def owner_of(extensions: Sequence[Extension], name: str) -> Extension | None:
    """Return the extension that has an option of this name; None if none has it."""
    return next((row for row in extensions if name in hints(row.options)), None)


class OptionValues:
    """The options of extensions, collected from layers of settings; later layers win."""

    def __init__(self, extensions: Sequence[Extension]):
        """Collect the options of these extensions."""
        self.rows = extensions
        self.values: dict[str, dict[str, Any]] = {}

    def take(self, name: str, value: object, where: str) -> bool:
        """Take an option's value and return True; return False if the name is not an option of an extension."""
        row = owner_of(self.rows, name)
        if row is None:
            return False
        of = self.values.setdefault(row.name, {})
        if name in table_fields(row.options):
            if not isinstance(value, Mapping):
                raise InputError(f"{where}{name} must be a table of tables")
            before = {key: dict(inner) for key, inner in of.get(name, ())}
            for key, inner in value.items():
                before[key] = before.get(key, {}) | dict(inner)
            of[name] = tuple((key, tuple(inner.items())) for key, inner in before.items())
        else:
            of[name] = coerce(value, hints(row.options)[name], f"{where}{name}")
        return True

    def made(self) -> dict[str, Any]:
        """Return the options by the extension's name."""
        found = {}
        for row in self.rows:
            if row.name in self.values:
                found[row.name] = row.options(**self.values[row.name])
                validate(found[row.name], row.name)
        return found


def check_given(extensions: Sequence[Extension], in_use: Sequence[Extension], given: Iterable[str]) -> None:
    """Raise an `InputError` if the user gave an option of an extension that the run does not use."""
    used = {row.name for row in in_use}
    for name in given:
        row = owner_of(extensions, name)
        if row is not None and row.name not in used and name != row.switch:
            raise InputError(f"{name} is an option of {row.name}, which this run does not use: also give {row.switch}")


def wraps(env: Any, config: Any, given: Mapping[Any, Any] = MappingProxyType({})) -> list[Callable[[Any], Any]]:
    """Return the wraps of extensions for an environment and a config, outermost first.

    Args:
      env: one environment.
      config: the algorithm's.
      given: options by extension, or by the name of a built-in one.

    Raises:
      InputError: for an unknown name, an option out of range, or extensions that exclude each other.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"extensions is {told(given)}; it must be a dict, such as {{my_extension: MyOptions()}}")
    own = [row for row in given if not isinstance(row, str)]
    for row in own:
        check_extension(row, "a key of extensions")
    known = (*own, *rows())
    options = {row.name: row.options() for row in known}
    for row, value in given.items():
        name = row if isinstance(row, str) else row.name
        if name not in options:
            raise unknown("extension", name, options)
        if not isinstance(value, wanted := type(options[name])):
            raise InputError(f"the options of extension {name} are {told(value)}; they must be {wanted.__name__}(...)")
        validate(value, name)
        options[name] = value
    return [bound(row, options[row.name]) for row in in_use(known, options, env, config)]
