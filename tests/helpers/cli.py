"""The command line, in this process or another."""

import subprocess
import sys

import pytest

from purerl.commands import cli


def command(*words):
    return [sys.executable, "-m", "purerl", *words]


def purerl(*words, cwd=None, env=None):
    return subprocess.run(command(*words), capture_output=True, text=True, cwd=cwd, env=env, timeout=250)


def told(capsys, *words):
    """Run in this process; return (exit code, what was printed to stderr)."""
    with pytest.raises(SystemExit) as caught:
        cli.main(list(words))
    return caught.value.code, capsys.readouterr().err
