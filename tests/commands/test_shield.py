"""A command reads only the files of its working directory that it was asked to read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from purerl.commands import shield

SETTINGS = "figure.dpi: 7\naxes.prop_cycle: cycler('color', [__import__('os').mkdir('mark') or 'r'])\n"
LISTEN = """
import os, sys
here, seen = os.getcwd(), []
def note(path):
    if isinstance(path, (str, bytes)) or hasattr(path, "__fspath__"):
        path = os.fsdecode(path)
        if path and os.path.dirname(os.path.join(here, path)) == here:
            seen.append(os.path.relpath(path))
def listen(event, args):
    if event in ("open", "os.listdir", "os.scandir"):
        note(args[0])
sys.addaudithook(listen)
for name in ("stat", "lstat", "access"):
    def patched(path, *args, before=getattr(os, name), **more):
        note(path)
        return before(path, *args, **more)
    setattr(os, name, patched)
from purerl.commands.cli import main
try:
    sys.argv[1:] = WORDS
    main()
finally:
    print(sorted({*seen} - {"."}))
"""


def python(code, cwd):
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=250)


def test_settings_of_matplotlib_in_the_current_folder_are_not_read(tmp_path):
    (tmp_path / "matplotlibrc").write_text(SETTINGS)
    look = "import matplotlib; print(matplotlib.rcParams['figure.dpi'], matplotlib.__spec__.origin)"
    assert python(look, tmp_path).stdout.startswith("7.0"), "the control: Matplotlib reads the file"
    (tmp_path / "mark").is_dir() and (tmp_path / "mark").rmdir()
    done = python(f"from purerl.commands import shield; shield.up(own=True); {look}", tmp_path)
    assert done.stdout.startswith("100.0 /") and not (tmp_path / "mark").exists(), done.stderr


def test_relative_paths_are_taken_from_the_command_alone(monkeypatch):
    monkeypatch.setattr(sys, "path", ["", "a/b", "/c", "__editable__.x.finder.__path_hook__"])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    shield.up(own=False)
    assert sys.path[0] == "" and len(sys.path) == 4
    shield.up(own=True)
    shield.up(own=True)
    assert sys.path == ["/c"] and sum(isinstance(finder, shield._Matplotlib) for finder in sys.meta_path) == 1
    exists = os.path.exists
    with shield._without("x"):
        assert not os.path.exists("x") and os.path.exists(Path(__file__))
    assert os.path.exists is exists


@pytest.mark.long
@pytest.mark.parametrize("words", [("plot", "RUN", "--out", "OUT.png"), ("evaluate", "RUN", "--gif", "OUT.gif")])
def test_no_package_looks_for_a_file_in_the_current_folder(words, run_folder, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    names = {"RUN": str(run_folder), "OUT.png": str(tmp_path / "out.png"), "OUT.gif": str(tmp_path / "out.gif")}
    code = LISTEN.replace("WORDS", repr([*(names.get(word, word) for word in words)]))
    done = python(code, empty)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
