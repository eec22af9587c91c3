"""Flags generated from the fields of dataclasses: name, default, help and type."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import click

from purerl.commands import sections
from purerl.errors import InputError, hints
from purerl.settings.values import from_text, to_text


class Literal(str):
    """A flag's value that stays text even if it looks like a number."""


def options_of(cls: Any, only: Iterable[str] = ()) -> list[click.Option]:
    """Return one flag per field of a dataclass, with its name, default and help; values are parsed later."""
    types = hints(cls)
    fields = [field for field in dataclasses.fields(cls) if not only or field.name in only]
    return [_flag(field, types[field.name]) for field in fields]


def _flag(field: dataclasses.Field, hint: object) -> click.Option:
    if field.metadata.get("tables"):
        return TablesOption(field)
    names = ["--" + field.name.replace("_", "-"), field.name]
    doc, metavar = field.metadata.get("doc", ""), field.metadata.get("metavar")
    if metavar is None:  # a field of a config
        text = f"{doc} {sections.details(field, hint)}".strip()
        return click.Option(names, metavar=sections.metavar(field, hint), help=text)
    doc = doc[:1].upper() + doc[1:]
    if field.default is False:
        return click.Option(names, is_flag=True, default=None, help=f"{doc}.")
    value = f"{field.default:g}" if isinstance(field.default, float) else to_text(field.default)
    default = "" if field.default is None else f"; default {field.metadata['meaning'] or value}"
    kind = Literal if hint in (str, str | None) else None
    return click.Option(names, type=kind, metavar=metavar, help=f"{doc}{default}.")


def flags_of(*classes: object, only: Iterable[str] = ()) -> Callable[[click.Command], click.Command]:
    """Return a decorator that adds the flags of dataclasses to a command; arguments as for `options_of`."""

    def add(command: click.Command) -> click.Command:
        command.params += [flag for cls in classes for flag in options_of(cls, only)]
        return command

    return add


def _parse_tables(
    ctx: click.Context, param: click.Parameter, assignments: tuple[str, ...]
) -> dict[str, dict[str, Any]] | None:
    """Return the values of a flag such as --set GROUP.NAME=VALUE, by group and name; None without the flag."""
    found: dict[str, dict[str, Any]] = {}
    flag, words = param.opts[0], getattr(param, "words", ())
    for text in assignments:
        path, equals, value = text.partition("=")
        table, dot, name = path.partition(".")
        if not (equals and dot and table and name and value):
            raise InputError(f"{flag} {text}: write {param.metavar}, such as taggers.learning_rate=1e-3")
        parsed = from_text(value)
        is_text = name in words and parsed is not None and not isinstance(parsed, bool)
        found.setdefault(table, {})[name] = value if is_text else parsed
    return found or None


class TablesOption(click.Option):
    """A repeatable flag that sets values in tables."""

    def __init__(self, field: dataclasses.Field):
        """Make the flag of a field that `fields.tables` declared."""
        data = field.metadata
        doc = data["doc"][:1].upper() + data["doc"][1:]
        names = [data["flag"], field.name]
        super().__init__(names, multiple=True, metavar=data["metavar"], help=f"{doc}.", callback=_parse_tables)
        self.words = data["words"]
