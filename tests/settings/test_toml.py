"""The TOML of settings: written, read, and refused if it is not from a purerl folder."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from purerl import InputError
from purerl.settings import toml


def test_written_and_read(tmp_path):
    sections = {
        "": {"a": 1, "b": None},
        "# of something": {"c": (1.5, "x"), "unwritable": np.arange(3)},
        "[empty]": {},
        "[over]": {"env.gravity": "8:12", "rate": np.float64(0.5)},
    }
    text = toml.text("a comment", sections)
    assert text.startswith("# a comment\nformat = ") and '\n\n# of something\nc = [1.5, "x"]\n' in text
    table = tomllib.loads(text)
    assert (table["a"], table["b"], table["c"]) == (1, "none", [1.5, "x"])
    assert table["over"] == {"env.gravity": "8:12", "rate": 0.5} and not {"empty", "unwritable"} & table.keys()
    (tmp_path / toml.SWEEP.file).write_text(text)
    assert toml.read_folder(tmp_path, toml.SWEEP, "over") == table


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "is not a TOML file"),
        ("a = " + "[" * 100_000, "is not a TOML file: maximum recursion"),
        ("format = 99", "has format 99, written by purerl another version"),
        ("over = 1", "is not complete: it has no format"),
        (f"format = {toml.FORMAT}", "is not complete: it has no over and no search"),
        (
            f"format = {toml.FORMAT}\nfrom_python = true",
            r"with the same arguments: purerl.sweep\(..., out='.*', resume=True\)$",
        ),
    ],
)
def test_folders_that_are_refused(tmp_path, text, message):
    (tmp_path / toml.SWEEP.file).write_text(text)
    with pytest.raises(InputError, match=message):
        toml.read_folder(tmp_path, toml.SWEEP, "over", "search")


def test_a_folder_of_another_job_says_so(tmp_path):
    """`purerl report` and --config read the file, other commands the folder."""
    (tmp_path / toml.EVOLUTION.file).touch()
    for read in (lambda: toml.read(toml.file_of(tmp_path)), lambda: toml.read_folder(tmp_path, toml.RUN)):
        with pytest.raises(InputError, match=r"no run in .*: it has no config.toml, it holds an evolution"):
            read()


def test_no_folder(tmp_path):
    with pytest.raises(InputError, match=r"there is no run in .*: it has no config.toml"):
        toml.read_folder(tmp_path, toml.RUN)
    with pytest.raises(InputError, match=r"there is no evolution in .*: no such folder"):
        toml.read_folder(tmp_path / "x", toml.EVOLUTION)
    with pytest.raises(InputError, match=r"there is no run in x+: no such folder"):
        toml.read_folder(Path("x" * 300), toml.RUN)


@pytest.mark.long
def test_a_file_is_named_once_in_what_is_wrong_with_it(tmp_path):
    file = tmp_path / "evolve.toml"
    for message in ("population is -4; it must be at least 2", f"unknown setting in {file} 'x'"):
        with pytest.raises(InputError) as told, toml.told_of(file):
            raise InputError(message)
        assert str(told.value).count(str(file)) == 1 and message in str(told.value)


def test_a_run_of_objects_names_the_calls_that_take_them():
    given = toml.RUN.calls(Path("mine"), ["environment"])
    call = "('mine', environment=...)"
    assert given == f"purerl.load_run{call} loads it, purerl.resume{call} resumes it"


def test_entries_of_tables_have_their_full_names():
    assert toml.flat("seed = 1\n[env]\ngravity = 2.0\n[env.wind]\nspeed = 3.0\n") == {
        "seed": 1,
        "env.gravity": 2.0,
        "env.wind.speed": 3.0,
    }
