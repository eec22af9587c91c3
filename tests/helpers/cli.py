"""The command line, in this process or another."""

import contextvars
import dataclasses
import subprocess
import sys

import pytest

from purerl.catalog.environments import ENVIRONMENTS
from purerl.commands import cli
from purerl.registry import environment_class


def command(*words):
    return [sys.executable, "-m", "purerl", *words]


def purerl(*words, cwd=None, env=None):
    return subprocess.run(command(*words), capture_output=True, text=True, cwd=cwd, env=env, timeout=250)


def told(capsys, *words):
    """Run in this process; return (exit code, what was printed to stderr)."""
    with pytest.raises(SystemExit) as caught:
        contextvars.Context().run(cli.main, list(words))  # which trusts nothing that this process named before
    return caught.value.code, capsys.readouterr().err


def unknown_parameters(words):
    """Return the parameters that a command line gives a native environment and that it has not."""
    named = [word.partition("env.")[2] for word in words if word.startswith(("--env.", "env."))]
    wanted = {name.partition("=")[0] for name in named}
    chosen = next((word for word in words if word in ENVIRONMENTS), None)
    return wanted - {f.name for f in dataclasses.fields(environment_class(chosen))} if chosen else set()
