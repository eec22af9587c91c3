"""Commands with flags for the environment's parameters, the algorithm's config and the options of extensions."""

import dataclasses
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from purerl.catalog.algorithms import ALGORITHMS, WITH_FOLLOWERS
from purerl.commands.flags import options_of
from purerl.commands.options import names_of, take_modules
from purerl.commands.sections import SECTION_OF, SECTIONS, of_environment
from purerl.errors import InputError, unknown
from purerl.registry import check_id
from purerl.settings.values import coerce

if TYPE_CHECKING:
    from purerl.loop.extension import Extension

# flags whose values name no algorithm
TEXTS = ("--callback", "--config", "--objective", "--out", "--resume", "--start", "--trust", "--wandb")


def split_parameters(args: list[str]) -> tuple[dict[str, str], list[str]]:
    """Split the arguments into ({NAME: VALUE} of every --env.NAME VALUE, the other arguments)."""
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


def find_algorithm(args: list[str]) -> str | None:
    """Return the algorithm that the arguments name, before they are parsed: the fields of its config are options."""
    if args and not args[0].startswith("-"):
        if args[0] not in WITH_FOLLOWERS and not _is_path(args[0]):
            raise _unknown_algorithm(*args[:2])
        if len(args) > 1 and not args[1].startswith("-") and not {"-h", "--help"} & set(args):
            check_id(args[1])  # before JAX and a suite are imported
        take_modules((), args[0])
        return args[0]
    words = [arg for before, arg in itertools.pairwise(["", *args]) if before not in TEXTS]
    named = next((word for word in words if word in WITH_FOLLOWERS), None) or next(filter(_is_path, words), None)
    if named is not None:
        take_modules((), named)
        return named
    from purerl import trust
    from purerl.settings import toml

    folders = (Path(folder) / toml.RUN.file for folder in _values(args, "--resume"))
    for file in (*map(Path, _values(args, "--config")), *(file for file in folders if file.is_file())):
        take_modules(_values(args, "--trust"))
        table = toml.read(toml.file_of(file))  # which names one
        written = str(table.get("algorithm", ""))
        if written in WITH_FOLLOWERS:
            return written
        return trust.checked(written, file) if _is_path(written) and not table.get("from_python") else None
    return None


def find_extensions(args: list[str]) -> tuple["Extension", ...]:
    """Return the extensions that a run may use, including those that --extension or a settings file names."""
    from purerl import trust
    from purerl.settings import extensions, toml

    named = [name for value in _values(args, "--extension") for name in names_of(value)]
    take_modules((), *named)
    for file in map(toml.file_of, map(Path, _values(args, "--config"))):
        take_modules(_values(args, "--trust"))
        table = toml.read(file) if file.is_file() else {}  # the command itself says what is wrong
        written = coerce(table.get("extension", ()), tuple[str, ...], f"{file}: extension")
        named += [trust.checked(name, file) for name in written]
    return extensions.rows(dict.fromkeys(named))


def _check_names(params: Iterable[click.Parameter]) -> None:
    """Raise an `InputError` if two options have one name."""
    seen: set[str | None] = set()
    for param in params:
        if param.name in seen:
            raise InputError(f"option {param.name} is defined twice: an extension must rename its option")
        seen.add(param.name)


def _is_path(text: str) -> bool:
    """Return whether a text has the form module:name."""
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def _values(args: list[str], flag: str) -> list[str]:
    """Return the values of a flag, before the arguments are parsed."""
    after = [value for word, value in itertools.pairwise(args) if word == flag]
    return after + [arg.partition("=")[2] for arg in args if arg.startswith(f"{flag}=")]


def _unknown_algorithm(name: str, other: str = "") -> InputError:
    """Return the error for a first argument that is not an algorithm; the second argument may be the algorithm."""
    if other in ALGORITHMS:
        return InputError(f"unknown algorithm '{name}': the algorithm comes first: {other} {name}")
    return unknown("algorithm", name, ALGORITHMS)


def config_options(algorithm: str | None) -> list[click.Option]:
    """Return one flag per field of the algorithm's config; without an algorithm, the flag for resumed runs."""
    if algorithm is None:
        return [click.Option(["--total-timesteps", "total_timesteps"], hidden=True)]
    from purerl import registry

    return options_of(registry.algorithm(algorithm)[1])


def extension_options(extensions: Iterable["Extension"]) -> dict[str, list[click.Option]]:
    """Return the flags of extensions by the extension's name."""
    return {row.name: options_of(row.options) for row in extensions if dataclasses.fields(row.options)}


class EnvironmentCommand(click.Command):
    """A command that accepts parameters of the environment; `options.typed` returns them."""

    parameter_help = "A parameter of the environment: --env.gravity 12."

    def __init__(self, *args: Any, **kwargs: Any):
        """Make the command; arguments as for `click.Command`."""
        super().__init__(*args, **kwargs)
        flag = click.Option(["--env.NAME"], metavar="VALUE", help=self.parameter_help, expose_value=False)
        self.params.append(flag)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remove --env.NAME VALUE from the arguments, then parse as usual."""
        ctx.meta["parameters"], args = split_parameters(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # its options say what is near
            raise


class AlgorithmCommand(EnvironmentCommand):
    """A command that also has flags for the fields of the algorithm's config."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the algorithm, then parse as usual."""
        words = split_parameters(args)[1]
        ctx.meta["algorithm"] = self.find_algorithm(words)
        ctx.meta["environment"] = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
        ctx.meta["extensions"] = self.find_extensions(words) if ctx.meta["algorithm"] else ()
        return super().parse_args(ctx, args)

    def find_algorithm(self, args: list[str]) -> str | None:
        """Return the algorithm that the arguments name."""
        return find_algorithm(args)

    def find_extensions(self, args: list[str]) -> tuple["Extension", ...]:
        """Return the extensions whose options the command accepts."""
        return find_extensions(args)

    def alternatives(self) -> str:
        """Return the last paragraph of the help page if no algorithm is named."""
        return f"purerl {self.name} ALGORITHM --help lists its settings: {', '.join(sorted(ALGORITHMS))}."

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's parameters and, if the algorithm is known, its flags."""
        params = super().get_params(ctx)
        help_option, others = params[-1], params[:-1]
        of_extensions = extension_options(ctx.meta.get("extensions", ())).values()
        own = [*config_options(ctx.meta.get("algorithm")), *itertools.chain.from_iterable(of_extensions)]
        _check_names([*others, *own])
        return [*others, *own, help_option]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in sections: command, environment, algorithm, and each extension."""
        algorithm = ctx.meta.get("algorithm")
        sections = {f"Settings of {algorithm}": config_options(algorithm)} if algorithm else {}
        for name, flags in extension_options(ctx.meta.get("extensions", ())).items():
            sections[f"Settings of the extension {name}"] = flags
        owner = {**SECTION_OF, **{flag.name: title for title, flags in sections.items() for flag in flags}}
        environment = str(ctx.meta.get("environment", ""))
        if environment:
            take_modules((), environment)
        parameters = of_environment(environment) if environment else []
        titles = ("Options", *SECTIONS, f"Parameters of {environment}", *sections)
        records: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
        records[f"Parameters of {environment}"] += parameters
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if isinstance(param, click.Option) and record:
                records[owner.get(param.name, "Options")].append(record)
        for title, lines in records.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)
        if not algorithm:
            formatter.write_paragraph()
            formatter.write_text(self.alternatives())
