"""What commands share: flags made of dataclass fields, the environment's parameters, and where a command runs."""

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from purerl.catalog.algorithms import ALGORITHMS
from purerl.errors import InputError, describe, hints, printable, unknown
from purerl.registry import check_id, module_of
from purerl.settings.options import LaunchOptions, make_options
from purerl.settings.trust import name_modules
from purerl.settings.values import coerce, from_text, to_text


class TextPath(click.Path):
    """A path whose name is text: libraries below take no other bytes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; refuse bytes that are no UTF-8."""
        found = super().convert(value, param, ctx)
        try:
            str(found).encode()
        except UnicodeEncodeError:
            self.fail(f"the name {str(found)!r} is no text in UTF-8", param, ctx)
        return found


class Literal(str):
    """A flag's value that is text, also where it looks like a number."""


PATH = TextPath(path_type=Path)
TEXTS = ("--callback", "--config", "--out", "--resume", "--start", "--trust", "--wandb")  # no value names an algorithm
PICTURES = (".png", ".pdf", ".svg", ".jpg")  # endings of pictures of curves
NO_CACHE = ("no_cache",)  # of LaunchOptions, for commands that run in one process
TRUST = click.option(
    "--trust", multiple=True, metavar="MODULE", help="Import this module where a file or folder names it."
)
SIMULATIONS = click.option(
    "--simulations",
    type=click.IntRange(1),
    metavar="N",
    help="Of an agent that searches: simulations for each move; default as it was trained.",
)


def say(text: object) -> None:
    """Print a result."""
    click.echo(printable(text))


def tell(text: object) -> None:
    """Print what a command does while it takes long, on stderr."""
    click.echo(printable(text), err=True)


def check_out(folder: Path | None) -> None:
    """Raise an `InputError` where a folder to make is there already, or cannot be made: before anything takes long."""
    if folder is None:
        return
    if os.path.lexists(folder):
        from purerl.settings.toml import taken

        raise taken(folder)
    _check_writable(folder)


def check_file(path: Path | None, *endings: str) -> None:
    """Raise an `InputError` where a file to write has another ending, or cannot be written."""
    if path is None:
        return
    if path.suffix.casefold() not in endings:
        raise InputError(f"{path} must end in {' or '.join(endings)}")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}")
    _check_writable(path)


def _check_writable(path: Path) -> None:
    there = next(parent for parent in path.absolute().parents if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK) or str(there).startswith("/proc"):
        raise InputError(f"cannot write {path}: {there} takes no new files")


def take_options(cls: type, flags: dict[str, Any]) -> Any:
    """Take the flags of a dataclass's fields out of the flags given, and return the dataclass.

    Raises:
      InputError: for a wrong type or a value out of bounds.
    """
    return make_options(cls, {name: flags.pop(name) for name in hints(cls) if name in flags})


def take_launch(given: dict[str, Any]) -> LaunchOptions:
    """Take the `LaunchOptions` out of the flags given.

    Raises:
      InputError: for other processes that are described, but not to be joined.
    """
    options = take_options(LaunchOptions, given)
    others = (options.coordinator, options.num_processes, options.process_index)
    if not options.distributed and any(value is not None for value in others):
        raise InputError("--coordinator, --num-processes and --process-index need --distributed")
    return options


def launch(options: LaunchOptions) -> None:
    """Set up the cache of compiled programs, and join the other processes if there are any."""
    from purerl.devices import distributed
    from purerl.run import cache

    if not options.no_cache:
        cache.enable()
    if options.distributed:
        distributed.initialize(options.coordinator, options.num_processes, options.process_index)


def take_modules(trust: Iterable[str], *names: str | None) -> None:
    """Let the modules be imported that the command's own words name, those of its `--trust` and of its names."""
    name_modules([*trust, *(module for name in names if name and (module := module_of(name)))])


def names_of(text: str | None) -> list[str]:
    """Return the names of a list separated by commas; none without one.

    Raises:
      InputError: if one stands there twice.
    """
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{text} names {twice} twice")
    return names


def split_parameters(args: list[str]) -> tuple[dict[str, str], list[str]]:
    """Take `--env.NAME VALUE` and `--env.NAME=VALUE` out of the arguments."""
    parameters, rest = {}, []
    remaining = iter(args)
    for arg in remaining:
        if not arg.startswith("--env."):
            rest.append(arg)
            continue
        name, equals, value = arg.removeprefix("--env.").partition("=")
        if not equals:
            value = next(remaining, "")
        if not name or not value or value.startswith("--"):
            raise InputError(f"{arg} needs a name and a value, such as --env.gravity 12")
        parameters[name] = value
    return parameters, rest


def typed(flags: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (the environment's parameters, the flags that were given) of a call, texts as their values."""
    parameters = {name: from_text(text) for name, text in click.get_current_context().meta["parameters"].items()}
    return parameters, given_values(flags)


def given_values(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags that were given, texts as their values."""
    given = {name: value for name, value in flags.items() if value is not None}
    return {name: _value(value) if isinstance(value, str) else value for name, value in given.items()}


def _value(text: str) -> Any:
    return str(text) if isinstance(text, Literal) else from_text(text)


def resume_options(cls: type, given: dict[str, Any], names: Iterable[str], *others: Any) -> dict[str, Any]:
    """Return the options that `--resume` allows, typed.

    Args:
      cls: the dataclass of the options.
      given: the flags that were given, without those of `LaunchOptions`.
      names: of the options allowed.
      others: the arguments and lists of flags beside them; None or empty where they were not given.

    Raises:
      InputError: if anything else was given.
    """
    allowed = {name: coerce(given.pop(name), hints(cls)[name], name) for name in names if name in given}
    if given or any(other not in (None, (), {}) for other in others):
        raise InputError("--resume continues with the settings in the folder: give no others, and no --out, beside it")
    return allowed


def _parse_tables(
    ctx: click.Context, param: click.Parameter, assignments: tuple[str, ...]
) -> dict[str, dict[str, Any]] | None:
    """Return the values of a flag such as --set GROUP.NAME=VALUE by group and name; None without the flag."""
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


def named_in_tables(given: Mapping[str, Any]) -> list[str]:
    """Return the algorithms that settings in tables name."""
    tables = [table for value in given.values() if isinstance(value, Mapping) for table in value.values()]
    return [str(table.get("algorithm", "")) for table in tables]


class TablesOption(click.Option):
    """A flag of settings in tables, which may be repeated."""

    def __init__(self, field: dataclasses.Field):
        """Make the flag of a field that `fields.tables` declared."""
        data = field.metadata
        doc = data["doc"][:1].upper() + data["doc"][1:]
        names = [data["flag"], field.name]
        super().__init__(names, multiple=True, metavar=data["metavar"], help=f"{doc}.", callback=_parse_tables)
        self.words = data["words"]


def find_algorithm(args: list[str]) -> str | None:
    """Return the algorithm that the arguments name, before they are parsed: its fields are options."""
    if args and not args[0].startswith("-"):
        if args[0] not in ALGORITHMS and not _is_path(args[0]):
            raise _unknown_algorithm(*args[:2])
        if len(args) > 1 and not args[1].startswith("-") and not {"-h", "--help"} & set(args):
            check_id(args[1])  # before JAX and a suite are imported
        take_modules((), args[0])
        return args[0]
    words = [arg for before, arg in itertools.pairwise(["", *args]) if before not in TEXTS]
    named = next((word for word in words if word in ALGORITHMS), None) or next(filter(_is_path, words), None)
    if named is not None:
        take_modules((), named)
        return named
    from purerl.settings import toml, trust

    folders = (Path(folder) / toml.RUN.file for folder in _values(args, "--resume"))
    for file in (*map(Path, _values(args, "--config")), *(file for file in folders if file.is_file())):
        take_modules(_values(args, "--trust"))
        table = toml.read(toml.file_of(file))  # which names one
        written = str(table.get("algorithm", ""))
        if written in ALGORITHMS:
            return written
        return trust.checked(written, file) if _is_path(written) and not table.get("from_python") else None
    return None


def find_extensions(args: list[str]) -> tuple[Any, ...]:
    """Return the extensions that a run may use, those included that --extension or a file of settings names."""
    from purerl.settings import extensions, toml, trust

    named = [name for value in _values(args, "--extension") for name in names_of(value)]
    take_modules((), *named)
    for file in map(toml.file_of, map(Path, _values(args, "--config"))):
        take_modules(_values(args, "--trust"))
        table = toml.read(file) if file.is_file() else {}  # the command itself says what is wrong
        named += [trust.checked(str(name), file) for name in table.get("extension", ())]
    return extensions.rows(dict.fromkeys(named))


def _check_names(params: Iterable[click.Parameter]) -> None:
    """Raise an `InputError` if two options have one name."""
    seen: set[str | None] = set()
    for param in params:
        if param.name in seen:
            raise InputError(f"option {param.name} is there twice: an extension must rename its own")
        seen.add(param.name)


def _is_path(text: str) -> bool:
    """Return whether a text is a module:name."""
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def _values(args: list[str], flag: str) -> list[str]:
    """Return the values of a flag, before the arguments are parsed."""
    after = [value for word, value in itertools.pairwise(args) if word == flag]
    return after + [arg.partition("=")[2] for arg in args if arg.startswith(f"{flag}=")]


def _unknown_algorithm(name: str, other: str = "") -> InputError:
    """Return the error for a first argument that is no algorithm; the second may be the one that is meant."""
    if other in ALGORITHMS:
        return InputError(f"unknown algorithm '{name}': the algorithm comes first: {other} {name}")
    return unknown("algorithm", name, ALGORITHMS)


def config_options(algorithm: str | None) -> list[click.Option]:
    """Return a flag per field of the algorithm's config; without an algorithm the one that a resumed run may take."""
    if algorithm is None:
        return [click.Option(["--total-timesteps", "total_timesteps"], hidden=True)]
    from purerl import registry

    return options_of(registry.algorithm(algorithm)[1])


def extension_options(extensions: Iterable[Any]) -> dict[str, list[click.Option]]:
    """Return the flags of extensions by the extension's name."""
    return {row.name: options_of(row.options) for row in extensions if dataclasses.fields(row.options)}


def options_of(cls: Any, only: Iterable[str] = ()) -> list[click.Option]:
    """Return a flag per field of a dataclass, with its name, default and help; values are parsed later.

    Args:
      cls: a config, or a dataclass of `purerl.settings.options`.
      only: the names of the fields; none: all.
    """
    types = hints(cls)
    fields = [field for field in dataclasses.fields(cls) if not only or field.name in only]
    return [_flag(field, types[field.name]) for field in fields]


def _flag(field: dataclasses.Field, hint: Any) -> click.Option:
    if field.metadata.get("tables"):
        return TablesOption(field)
    names = ["--" + field.name.replace("_", "-"), field.name]
    doc, metavar = field.metadata.get("doc", ""), field.metadata.get("metavar")
    if metavar is None:  # of a config
        choices = field.metadata.get("choices")
        kind = " | ".join(str(choice) for choice in choices) if choices else describe(hint)
        default = "" if field.default is dataclasses.MISSING else f"; default {to_text(field.default)}"
        return click.Option(names, metavar="VALUE", help=f"{doc} [{kind}{default}]".strip())
    doc = doc[:1].upper() + doc[1:]
    if field.default is False:
        return click.Option(names, is_flag=True, default=None, help=f"{doc}.")
    value = f"{field.default:g}" if isinstance(field.default, float) else to_text(field.default)
    default = "" if field.default is None else f"; default {field.metadata['meaning'] or value}"
    kind = Literal if hint in (str, str | None) else None
    return click.Option(names, type=kind, metavar=metavar, help=f"{doc}{default}.")


def flags_of(*classes: Any, only: Iterable[str] = ()) -> Callable[[click.Command], click.Command]:
    """Return a decorator that adds the flags of dataclasses to a command; arguments as for `options_of`."""

    def add(command: click.Command) -> click.Command:
        command.params += [flag for cls in classes for flag in options_of(cls, only)]
        return command

    return add


class EnvironmentCommand(click.Command):
    """A command that takes parameters of the environment."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take --env.NAME VALUE, then parse as usual."""
        ctx.meta["parameters"], args = split_parameters(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # its options say what is near
            raise


class AlgorithmCommand(EnvironmentCommand):
    """A command with flags for the fields of the algorithm's config, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the algorithm, then parse as usual."""
        words = split_parameters(args)[1]
        ctx.meta["algorithm"] = self.find_algorithm(words)
        ctx.meta["extensions"] = find_extensions(words) if ctx.meta["algorithm"] else ()
        return super().parse_args(ctx, args)

    def find_algorithm(self, args: list[str]) -> str | None:
        """Return the algorithm that the arguments name."""
        return find_algorithm(args)

    def alternatives(self) -> str:
        """Return the last paragraph of the help page where no algorithm is named."""
        return f"purerl {self.name} ALGORITHM --help lists its settings: {', '.join(sorted(ALGORITHMS))}."

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's parameters, and the algorithm's flags where it is known."""
        params = super().get_params(ctx)
        help_option, others = params[-1], params[:-1]
        of_extensions = extension_options(ctx.meta.get("extensions", ())).values()
        own = [*config_options(ctx.meta.get("algorithm")), *itertools.chain.from_iterable(of_extensions)]
        _check_names([*others, *own])
        return [*others, *own, help_option]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in sections: the command's, the algorithm's, and those of each extension."""
        algorithm = ctx.meta.get("algorithm")
        sections = {f"Settings of {algorithm}": config_options(algorithm)} if algorithm else {}
        for name, flags in extension_options(ctx.meta.get("extensions", ())).items():
            sections[f"Settings of the extension {name}"] = flags
        owner = {flag.name: title for title, flags in sections.items() for flag in flags}
        records: dict[str, list[tuple[str, str]]] = {"Options": [], **{title: [] for title in sections}}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if isinstance(param, click.Option) and record:
                records[owner.get(param.name, "Options")].append(record)
        for title, lines in records.items():
            with formatter.section(title):
                formatter.write_dl(lines)
        if not algorithm:
            formatter.write_paragraph()
            formatter.write_text(self.alternatives())
