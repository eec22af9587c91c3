"""What commands share: paths, the flags made of a config's fields, and the environment's parameters."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from purerl.errors import InputError, unknown
from purerl.registry import ALGORITHMS

PATH = click.Path(path_type=Path)


class Place(NamedTuple):
    """Where a command runs."""

    cached: bool  # whether compiled programs are kept
    together: bool  # with other processes
    coordinator: str | None
    num_processes: int | None
    process_index: int | None

    @staticmethod
    def take(flags: dict[str, Any]) -> "Place":
        """Take the flags of `place_options` out of a call's.

        Raises:
          InputError: for other processes that are described, but not to be joined.
        """
        others = [flags.pop(name) for name in ("coordinator", "num_processes", "process_index")]
        place = Place(not flags.pop("no_cache"), flags.pop("together"), *others)
        if not place.together and any(value is not None for value in others):
            raise InputError("--coordinator, --num-processes and --process-index need --distributed")
        return place

    def enter(self) -> None:
        """Set up the cache of compiled programs, and join the other processes if there are any."""
        from purerl.devices import distributed
        from purerl.run import cache

        if self.cached:
            cache.enable()
        if self.together:
            distributed.initialize(*self[2:])


def place_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `Place.take` reads."""
    options = [
        click.option(
            "--distributed", "together", is_flag=True, help="Join other processes: by the next three, or SLURM."
        ),
        click.option("--coordinator", metavar="HOST:PORT", help="Where the first process listens."),
        click.option("--num-processes", type=int, metavar="N", help="How many processes there are."),
        click.option("--process-index", type=int, metavar="I", help="Which one this is, from 0."),
        click.option("--no-cache", is_flag=True, help="Do not use the cache of compiled programs."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


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


def typed(flags: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (the environment's parameters, the flags that were given) of a call, texts as what they stand for."""
    from purerl.run.config import from_text

    parameters = {name: from_text(text) for name, text in click.get_current_context().meta["parameters"].items()}
    given = {name: value for name, value in flags.items() if value is not None}
    return parameters, {name: from_text(value) if isinstance(value, str) else value for name, value in given.items()}


def new_devices(given: dict[str, Any], *names: str) -> dict[str, Any]:
    """Take what may be other than before when a run goes on, `devices` and `mesh`, out of the flags that were given."""
    from purerl.run.config import option_value

    return {name: option_value(name, given.pop(name)) for name in names if name in given}


def group_settings(assignments: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return what `--set GROUP.NAME=VALUE` says: values by group and name."""
    from purerl.run.config import from_text

    found: dict[str, dict[str, Any]] = {}
    for text in assignments:
        place, equals, value = text.partition("=")
        group, dot, name = place.partition(".")
        if not (equals and dot and group and name and value):
            raise InputError(f"--set {text}: write GROUP.NAME=VALUE, such as taggers.learning_rate=1e-3")
        found.setdefault(group, {})[name] = from_text(value)
    return found


def find_algorithm(args: list[str]) -> str | None:
    """Return the algorithm that the arguments name, before they are parsed: its fields are options."""
    if args and not args[0].startswith("-"):
        if args[0] not in ALGORITHMS:
            raise unknown("algorithm", args[0], ALGORITHMS)
        return args[0]
    named = [arg for arg in args if arg in ALGORITHMS]
    if named:
        return named[0]
    for i, arg in enumerate(args):  # the file of --config names one
        flag, _, value = arg.partition("=")
        if flag == "--config" and (value or args[i + 1 : i + 2]):
            from purerl.run.config import read_toml

            written = read_toml(Path(value or args[i + 1])).get("algorithm")
            return written if written in ALGORITHMS else None
    return None


def config_options(algorithm: str | None) -> list[click.Option]:
    """Return a flag per field of the algorithm's config; none without an algorithm."""
    if algorithm is None:
        return []
    from purerl import registry
    from purerl.run import config

    _, config_class = registry.algorithm(algorithm)
    return options_of(config_class, config.hints(config_class))


def options_of(cls: Any, hints: dict[str, Any]) -> list[click.Option]:
    """Return an option per field of a dataclass, with its type, default and doc; values are parsed later."""
    from purerl.run.config import describe

    options = []
    for field in dataclasses.fields(cls):
        choices = field.metadata.get("choices")
        kind = " | ".join(str(choice) for choice in choices) if choices else describe(hints[field.name])
        default = "" if field.default is dataclasses.MISSING else f"; default {_shown(field.default)}"
        doc = f"{field.metadata.get('doc', '')} [{kind}{default}]"
        flag = "--" + field.name.replace("_", "-")
        options.append(click.Option([flag, field.name], metavar="VALUE", help=doc.strip()))
    return options


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(str(entry) for entry in value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


class AlgorithmCommand(click.Command):
    """A command whose options are its own and the fields of the algorithm's config."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take --env.NAME VALUE and find the algorithm, then parse as usual."""
        ctx.meta["parameters"], args = split_parameters(args)
        ctx.meta["algorithm"] = self.find_algorithm(args)
        return super().parse_args(ctx, args)

    def find_algorithm(self, args: list[str]) -> str | None:
        """Return the algorithm that the arguments name."""
        return find_algorithm(args)

    def alternatives(self) -> str:
        """Return what the help page says where no algorithm is named."""
        return f"purerl {self.name} ALGORITHM --help lists its settings: {', '.join(sorted(ALGORITHMS))}."

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return its own options, and those of the algorithm where it is known."""
        params = super().get_params(ctx)
        help_option, own = params[-1], params[:-1]
        return [*own, *config_options(ctx.meta.get("algorithm")), help_option]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in two sections."""
        algorithm = ctx.meta.get("algorithm")
        config_names = {option.name for option in config_options(algorithm)}
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = [(option.name in config_names, option.get_help_record(ctx)) for option in options]
        with formatter.section("Options"):
            formatter.write_dl([record for of_config, record in records if record and not of_config])
        if algorithm:
            with formatter.section(f"Settings of {algorithm}"):
                formatter.write_dl([record for of_config, record in records if record and of_config])
        else:
            formatter.write_paragraph()
            formatter.write_text(self.alternatives())
