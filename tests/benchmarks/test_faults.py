"""Fault injection: its counts and comparisons, and one try of each kind with real processes."""

import json
import os
import random
import shutil
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.__main__ import command
from benchmarks.faults import damages, disks, folders, kills, kinds, leaks, runner, surroundings, system_calls, tally
from benchmarks.faults.tally import Case, NotHere, Verdict

pytestmark = pytest.mark.publish


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    return tally.References(tmp_path_factory.mktemp("references"), timed=False)


@pytest.fixture(scope="module")
def whole(references):
    """The folder of an undisturbed run."""
    return references("train", kills.PROGRAMS["train"][0].split())[0]


def test_killed_at_a_file_operation_and_resumed(references, whole, tmp_path):
    """The 25th change of a file is in the middle of the checkpoints."""
    chance = random.Random(0)
    chance.choice, chance.uniform = lambda options: "operation", lambda low, high: np.log2(25.5)
    verdict = kills._chain("train", references, chance, tmp_path, strikes=1)
    assert verdict == Verdict(tries=1), verdict


def test_a_damaged_run_is_told(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "job")
    newest = max((tmp_path / "job" / "checkpoints").glob("[0-9]*"))
    damages.flipped(next((newest / "state").rglob("d/*")), random.Random(1))
    (tmp_path / "job" / "summary.json").unlink()
    done = runner.run("train", "--resume", str(tmp_path / "job"), "--plain", "--no-cache")
    assert not tally.ended(done).failed and damages._told(done.text, "checkpoints/x"), done.text
    assert done.code == 2 and 0 < done.bytes < 2**32


@pytest.mark.parametrize("count", [16, 20])
def test_few_descriptors_are_told_in_lines(references, tmp_path, count):
    verdict = disks._limited(references, {"RLIMIT_NOFILE": count}, tmp_path)
    assert not verdict.failed, verdict


def test_nothing_of_a_crafted_folder_runs(references, whole, tmp_path):
    craft = folders.CRAFTS["an environment of a module"]
    verdict = folders._run(craft, folders.READERS["explain"], references, tmp_path)
    assert not verdict.failed, verdict


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("group", ["kills", "damages", "disks", "surroundings", "environments", "folders"])
def test_a_few_minutes_of_each_group(group, tmp_path):
    words = [f"faults.{group}", "--minutes", "8", "--out", str(tmp_path)]
    shown = CliRunner().invoke(command, words, catch_exceptions=False)
    (report,) = (json.loads(file.read_text()) for file in tmp_path.glob("*.json"))
    table, *others = report["groups"][f"faults.{group}"]["tables"]
    _, tries, survived, *_ = table["rows"][-1]
    assert shown.exit_code == 0 and tries == survived > 0, (shown.output, others)


def test_counts(tmp_path):
    verdicts = [Verdict(), Verdict(tries=3), Verdict(lost="all"), Verdict(other="hung"), Verdict(traceback=True)]
    cases = [
        Case(kind="a", name=str(i), attempt=partial(lambda verdict, work: verdict, verdict))
        for i, verdict in enumerate(verdicts)
    ]

    def missing(work):
        raise NotHere("no disk")

    table, failures, missed = tally.campaign("x", [*cases, Case(kind="b", name="c", attempt=missing)], 60.0)
    assert table.rows == [["a", 7, 4, 1, 1, 1], ["all", 7, 4, 1, 1, 1]]
    assert [row[2] for row in failures.rows] == ["all", "hung", "a traceback"] and missed.rows == [
        ["b", "c", "no disk"]
    ]
    assert tally.campaign("x", cases, -1.0)[0].rows == [["all", 0, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("metrics.csv", "metrics.csv differs"),
        ("summary.json", "summary.json differs"),
        ("config.toml", "config.toml differs"),
        ("new.txt", "files differ: new.txt"),
        ("checkpoints", "checkpoint 000000032 instead of 000000040"),
    ],
)
def test_differences(whole, tmp_path, file, told):
    folder = tmp_path / "job"
    shutil.copytree(whole, folder)
    assert tally.differences(whole, folder) == ""
    path = folder / file
    if file == "checkpoints":
        shutil.rmtree(path / "000000040"), shutil.rmtree(path / "000000036")
    else:
        text = path.read_text() if path.exists() else ""
        path.write_text(text.replace("-", "").replace("32", "33"))
    assert tally.differences(whole, folder) == told


def test_a_checkpoint_of_other_arrays_differs(whole, tmp_path):
    folder = tmp_path / "job"
    shutil.copytree(whole, folder)
    shutil.rmtree(folder / "checkpoints" / "000000040")
    (folder / "checkpoints" / "000000036").rename(folder / "checkpoints" / "000000040")
    assert tally.differences(whole, folder).startswith("checkpoint 000000040: ")


def test_times_are_no_difference(whole, tmp_path):
    folder = tmp_path / "job"
    shutil.copytree(whole, folder)
    lines = [line.split(",") for line in (folder / "metrics.csv").read_text().splitlines()]
    timed = lines[0].index("wall_seconds")
    for line in lines[1:]:
        line[timed] = "7.5"
    (folder / "metrics.csv").write_text("\n".join(",".join(line) for line in lines) + "\n")
    assert tally.differences(whole, folder) == ""


def test_damages(tmp_path):
    for damage in damages.DAMAGES:
        path = tmp_path / damage.__name__
        path.write_bytes(b"0123456789" * 10)
        damage(path, random.Random(0))
        assert not path.is_file() or path.stat().st_size != 100 or path.read_bytes() != b"0123456789" * 10


def test_what_counts_as_told():
    assert damages._told("config.toml is damaged", "config.toml")
    assert not damages._told("see runs/a: summary.json, metrics.csv", "metrics.csv")
    assert surroundings.PLACES["stdout full"].codes == (0, 1, 2)


def test_a_failing_rename_is_survived_and_not_tried_again(tmp_path):
    """In a process of its own: the library of failing calls is loaded before the first command."""
    out = tmp_path / "cases.jsonl"
    words = ["-m", "benchmarks.faults.matrix", "--only", "^ppo: rename EIO, once", "--out", str(out)]
    for _ in range(2):
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
        assert done.returncode == 0 and "1 of 1 cases" in done.stdout, done.stdout + done.stderr
    (line,) = map(json.loads, out.read_text().splitlines())
    assert line["kind"] == "ppo" and line["tries"] >= 1 and not line["wrong"], line


def test_a_leak_is_looked_for_in_jobs_without_an_end():
    assert "10000000" in leaks.endless(kinds.KINDS["ppo"].words)
    for kind, trials, flag in (("sweep, random", "20000", "--chunk"), ("sweep, halving", "2000", "--slots")):
        words = leaks.endless(kinds.KINDS[kind].words)
        assert words[words.index("--trials") + 1] == trials and words[words.index(flag) + 1] == "1"
    assert "10000" in leaks.endless(kinds.KINDS["sweep, pbt"].words)


def test_calls_fail_where_they_are_to(tmp_path):
    """The third write to a file of the folder fails, and no other; a fourth writes half, two more nothing."""
    (tmp_path / "in").mkdir()
    system_calls.build(tmp_path)
    library = os.environ.pop("LD_PRELOAD")
    code = f"""
import os
from benchmarks.faults import system_calls
file, other = (os.open({str(tmp_path)!r} + name, os.O_CREAT | os.O_WRONLY) for name in ("/in/a", "/b"))
arm = lambda error, nth, count: system_calls.arm(
    system_calls.Fault(call="write", error=error, nth=nth, among=count, within={str(tmp_path / "in")!r},
                       marks={str(tmp_path / "marks")!r}))
arm("ENOSPC", 3, 1)
os.write(file, b"12"), os.write(file, b"34"), os.write(other, b"1"), os.write(other, b"1")
try:
    os.write(file, b"56")
except OSError as error:
    assert error.errno == 28
else:
    raise SystemExit("no error")
arm("half", 4, 1)
assert os.write(file, b"78") == 1
arm("mixed", 5, 1)
try:
    os.write(file, b"9")
except OSError as error:
    assert error.errno == 28
else:
    raise SystemExit("no error")
arm("kill", 6, 1)
os.write(file, b"9")
"""
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"LD_PRELOAD": library})
    assert done.returncode == -9
    assert (tmp_path / "in" / "a").read_bytes() == b"12347" and (tmp_path / "marks").read_bytes() == b"wwww"
