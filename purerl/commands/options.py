"""Code that commands share: common options, checks of files, and the devices that a command uses."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from purerl.commands.flags import Literal
from purerl.errors import InputError, hints, printable
from purerl.settings.options import LaunchOptions, make_options
from purerl.settings.values import coerce, from_text
from purerl.trust import module_of, name_modules, names_module

P = ParamSpec("P")

T = TypeVar("T")


class TextPath(click.Path):
    """A path whose name is valid text, as libraries require."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; reject bytes that are not UTF-8."""
        found = super().convert(value, param, ctx)
        try:
            str(found).encode()
        except UnicodeEncodeError:
            self.fail(f"the name {str(found)!r} is not valid UTF-8", param, ctx)
        return found


PATH = TextPath(path_type=Path)
PICTURES = (".png", ".pdf", ".svg", ".jpg")  # endings of pictures of curves
NO_CACHE = ("no_cache",)  # fields of LaunchOptions for commands that run in one process
TRUST = click.option(
    "--trust", multiple=True, metavar="MODULE", help="Allow this module to be imported if a file or folder names it."
)
CONFIG = click.option(
    "--config", "config_file", type=PATH, metavar="FILE|RUN_DIR", help="Settings from a TOML file or from a run."
)
CHECKPOINT = click.option(
    "--checkpoint",
    default="latest",
    metavar="WHICH",
    help="Checkpoint: latest, best or the number of its update; default latest.",
)
SIMULATIONS = click.option(
    "--simulations",
    type=click.IntRange(1),
    metavar="N",
    help="Simulations per move, for agents that plan (AlphaZero, MuZero); default as trained.",
)
RUN_DIRS = click.argument("run_dirs", type=PATH, nargs=-1, required=True, metavar="RUN_DIR...")


def job_options(noun: str, folder: str) -> Callable[[Callable[P, int]], Callable[P, int]]:
    """Return a decorator with the options of all commands that start or resume a long job."""
    options = (
        click.option("--out", type=PATH, metavar="DIR", help=f"Output folder; default runs/{folder}-N."),
        click.option("--resume", "resume_folder", type=PATH, metavar="DIR", help=f"Resume the {noun} in this folder."),
        TRUST,
        click.option("--plain", is_flag=True, help="Print lines of text instead of the live display."),
    )

    def add(function: Callable[P, int]) -> Callable[P, int]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def say(text: object) -> None:
    """Print a result."""
    click.echo(printable(text))


def tell(text: object) -> None:
    """Print on stderr what a slow command is doing."""
    click.echo(printable(text), err=True)


def check_out(folder: Path | None) -> None:
    """Raise an `InputError` before any slow work if a folder to create exists or cannot be created."""
    if folder is None:
        return
    if os.path.lexists(folder):
        from purerl.settings.toml import taken

        raise taken(folder)
    _check_writable(folder)


def check_runs(folders: Iterable[Path]) -> None:
    """Raise an `InputError` if one of the folders is not a run."""
    for folder in folders:
        if not folder.is_dir():
            from purerl.settings import toml

            raise toml.no_job(toml.RUN, folder)


def check_file(path: Path | None, *endings: str) -> None:
    """Raise an `InputError` if an output file has an unsupported extension or cannot be written."""
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
        raise InputError(f"cannot write {path}: {there} is not writable")


def take_options(cls: type[T], flags: dict[str, Any]) -> T:
    """Move the flags of a dataclass's fields out of the given flags, and return the dataclass."""
    return make_options(cls, {name: flags.pop(name) for name in hints(cls) if name in flags})


def take_launch(given: dict[str, object]) -> LaunchOptions:
    """Move the flags of `LaunchOptions` out of the given flags, and return the options."""
    options = take_options(LaunchOptions, given)
    others = (options.coordinator, options.num_processes, options.process_index)
    if not options.distributed and any(value is not None for value in others):
        raise InputError("--coordinator, --num-processes and --process-index need --distributed")
    return options


def launch(options: LaunchOptions) -> None:
    """Set up the cache of compiled programs, and connect to the other processes, if any."""
    from purerl.devices import distributed
    from purerl.run import cache

    if not options.no_cache:
        cache.enable()
    if options.distributed:
        distributed.initialize(options.coordinator, options.num_processes, options.process_index)


def take_modules(trust: Iterable[str], *names: str | None) -> None:
    """Trust the modules that the command line itself names, by `--trust` or in its arguments."""
    name_modules([*trust, *(module for name in names if name and (module := module_of(name)))])


def names_of(text: str | None) -> list[str]:
    """Return the names in a comma-separated list; [] without one."""
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{text} names {twice} twice")
    return names


def typed(flags: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (the environment's parameters, the given flags) of a call, with texts parsed to values."""
    parameters = {name: from_text(text) for name, text in click.get_current_context().meta["parameters"].items()}
    name_modules(module_of(value) for value in parameters.values() if names_module(value))
    return parameters, given_values(flags)


def given_values(flags: Mapping[str, object]) -> dict[str, Any]:
    """Return the flags that were given, with texts parsed to values."""
    given = {name: value for name, value in flags.items() if value is not None}
    return {name: _value(value) if isinstance(value, str) else value for name, value in given.items()}


def _value(text: str) -> Any:
    return str(text) if isinstance(text, Literal) else from_text(text)


def resume_options(cls: type, given: dict[str, object], names: Iterable[str], *others: object) -> dict[str, Any]:
    """Return the options that `--resume` allows, typed.

    Args:
      cls: the dataclass of the options.
      given: the flags that were given, without those of `LaunchOptions`.
      names: the names of the options allowed.
      others: the other arguments and lists of flags; None or empty if they were not given.
    """
    allowed = {name: coerce(given.pop(name), hints(cls)[name], name) for name in names if name in given}
    if given or any(other not in (None, (), {}) for other in others):
        raise InputError(
            "--resume continues with the settings in the folder: other settings and --out cannot be combined with it"
        )
    return allowed
