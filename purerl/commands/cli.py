"""The command line: finds the command, runs it and turns errors into one line. Slow imports happen late."""

import contextvars
import dataclasses
import importlib
import io
import itertools
import logging
import os
import re
import select
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, TextIO

import click

from purerl.catalog.environments import ENVIRONMENTS, SUITES
from purerl.catalog.version import VERSION
from purerl.commands import shield
from purerl.devices.process import leave
from purerl.errors import InputError, nearest, printable, unknown

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
COMMANDS = (
    "train",
    "sweep",
    "evolve",
    "meta-evaluate",
    "evaluate",
    "export",
    "play",
    "list",
    "check",
    "plot",
    "compare",
    "report",
    "explain",
)  # in the order of the help page
HOST_THREADS = (
    "purerl host"  # prefix of the names of environment threads; one alive at the end means that an environment hangs
)


def main(args: list[str] | None = None, command: click.Command | None = None, name: str = "purerl") -> None:
    """Run the command line and exit with its code; bad input prints one line on stderr and exits with code 2.

    Args:
      args: the words; None: those of the process, which is then this command's own.
      command: a single command instead of all of purerl's.
      name: the program's name in its help and its errors.
    """
    shield.up(own=args is None)
    _prepare_output()
    run = partial((command or cli).main, args=args, prog_name=name, standalone_mode=False)
    words = sys.argv[1:] if args is None else args
    sign = threading.Timer(SILENCE, click.echo, (_loading(words),), {"err": True})
    sign.daemon = True
    if args is None:
        sign.start()
        sys.unraisablehook = _come_again
        sys.excepthook, warnings.showwarning = _show_error, _show_warning
        os.environ["MPLBACKEND"] = "agg"  # pictures go to files; a backend of no name would end Matplotlib's import
    try:
        code = contextvars.copy_context().run(run)  # whom this command trusts, the next one may not
    except InputError as error:
        code = _complain(str(error))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        code = 0
    except click.ClickException as error:
        code = _complain(_told(error, words))
    except (KeyboardInterrupt, click.Abort) as error:
        click.echo("interrupted", err=True)
        leave(128 + _signal_of(error))  # now, although a compiler's thread may still be busy
    except SystemExit as error:  # click raises others, but where who reads the output has closed it, as head does
        called = f"something called sys.exit({error.code}), such as a step of the environment"
        code = CLOSED if _is_closed(sys.stdout) else _complain(called)
    except (MemoryError, OverflowError) as error:
        what = "there is not enough memory" if isinstance(error, MemoryError) else "a number is too large"
        code = _complain(f"{what}: {str(error).strip().partition(chr(10))[0]}")
    except OSError as error:
        if error.strerror is None:
            raise
        code = _complain(f"cannot read or write {error.filename or 'the output'}: {error.strerror}")
    finally:
        sign.cancel()
    code = code if isinstance(code, int) else 0
    if args is None and any(thread.name.startswith(HOST_THREADS) for thread in threading.enumerate()):
        leave(code)  # a host environment still hangs: Python would abort when it ends a thread in C++
    sys.exit(code)


def _prepare_output() -> None:
    """Escape characters that the terminal lacks, and silence tracebacks that this command reports in one line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may not have every letter
    for logger in ("jax._src.callback", "jax._src.debugging"):  # errors of callbacks, reported in one line
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    logging.getLogger("jax._src.xla_bridge").addFilter(_without_traceback)  # from plugins without a GPU


def _is_closed(output: TextIO) -> bool:
    """Return whether the reader of this process's output has closed it."""
    try:
        poll = select.poll()
        poll.register(output.fileno(), 0)
        return any(events & select.POLLERR for _, events in poll.poll(0))
    except (AttributeError, OSError, ValueError):  # it is not a file, or the system has no poll
        return False


def _without_traceback(record: logging.LogRecord) -> bool:
    """Move the error of a log record to the end of its line, without the traceback; keep the record."""
    if record.exc_info and record.exc_info[1] is not None:
        record.msg, record.args = f"{record.getMessage()}: {record.exc_info[1]}", ()
        record.exc_info = None
    return True


def _come_again(told: "sys.UnraisableHookArgs") -> None:
    """Send an interrupt again that arrived where Python cannot raise it, such as in the garbage collector."""
    if told.exc_type is KeyboardInterrupt:
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(told)


def _show_error(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Print a traceback without control characters, which the text of a file may contain."""
    click.echo(printable("".join(traceback.format_exception(kind, error, trace))), err=True, nl=False)


def _show_warning(message: Any, category: type[Warning], filename: str, lineno: int, *_: object) -> None:
    """Print a warning without control characters."""
    click.echo(printable(warnings.formatwarning(message, category, filename, lineno)), err=True, nl=False)


def _loading(words: Sequence[str]) -> str:
    """Return the line that a command shows while its imports take long."""
    suite = next((suite for word in words for suite in SUITES if word.startswith(f"{suite}/")), None)
    return f"purerl: loading JAX{f' and {suite}' if suite else ''} ..."


def _told(error: click.ClickException, words: Sequence[str]) -> str:
    """Return click's message, with the nearest option or the allowed values."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    options = {} if context is None else {name: p for p in context.command.get_params(context) for name in p.opts}
    if isinstance(error, click.NoSuchOption):
        name = error.option_name
        told = f"No such option '{name}'."
        if context is not None and context.command.name in ("train", "sweep", "evolve") and "--resume" in words:
            return f"{told} --resume continues with the settings in the folder: give no others beside it"
        if name.startswith("--no-") and f"--{name.removeprefix('--no-')}" in options:
            return f"{told} Write --{name.removeprefix('--no-')} false"
        field = name.removeprefix("--").replace("-", "_")
        if any(field in _parameters(word) for word in words):
            return f"{told} Did you mean '--env.{field}'?"
        near = nearest(name, [option for option in options if option.startswith("--")])
        return f"{told} Did you mean '{near}'?" if near else f"{told} --help lists them"
    if isinstance(error, click.BadOptionUsage) and error.option_name in options:
        found = re.search(r"\[([^\]]*)\]$", getattr(options[error.option_name], "help", None) or "")
        return f"{message.rstrip('.')}: {found.group(1)}" if found else message
    extra = re.search(r"extra arguments? \((.*)\)", message)
    for flag, word in itertools.pairwise(words):
        if extra and word in extra.group(1).split() and getattr(options.get(flag), "is_flag", False):
            return f"{flag} takes no value, and got {word}"
    return message


def _parameters(word: str) -> list[str]:
    """Return the names of a native environment's parameters; [] for any other word."""
    if word not in ENVIRONMENTS:
        return []
    from purerl import registry

    return [field.name for field in dataclasses.fields(registry.environment_class(word))]


def _signal_of(error: BaseException) -> int:
    """Return the signal that interrupted a command, from the exception or its cause: click raises `Abort` instead."""
    given = [arg for found in (error, error.__cause__) if found is not None for arg in found.args]
    return next((arg for arg in given if isinstance(arg, int)), signal.SIGINT)


def _complain(message: str) -> int:
    line = printable(" ".join(message.split()))
    line = line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
    click.echo(f"purerl: error: {line}", err=True)
    return 2


CLOSED = 141  # the code where nobody reads the output any more, as of a process that SIGPIPE ends
LONGEST = 2000  # letters of an error, which may quote a file
SILENCE = 0.5  # seconds, after which a command that still imports says so


class Commands(click.Group):
    """The commands by name, each imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return their names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Return one of them."""
        if cmd_name not in COMMANDS:
            raise unknown("command", cmd_name, COMMANDS)
        return importlib.import_module(f"purerl.commands.{cmd_name.replace('-', '_')}").command


@click.group(cls=Commands, context_settings=CONTEXT)
@click.version_option(VERSION, prog_name="purerl")
def cli() -> None:
    """Reinforcement learning end to end in JAX.

    \b
    purerl train ppo CartPole-v1            train, in runs/ppo-CartPole-v1-1/
    purerl evaluate runs/ppo-CartPole-v1-1  play with the trained agent
    """


if __name__ == "__main__":
    main()
