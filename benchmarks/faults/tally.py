"""Counts the outcomes of tries, and compares two folders of the same job."""

import csv
import json
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import tables
from benchmarks.faults import runner
from benchmarks.faults.runner import Done
from benchmarks.tables import Table

COLUMNS = tables.columns(
    "kind: text; tries: count; survived: count; lost or wrong silently: count; tracebacks: count; other failures: count"
)


class NotHere(Exception):
    """A fault that cannot be made on this machine."""


class Verdict(NamedTuple):
    """What came of a case."""

    tries: int = 1
    lost: str = ""  # what is missing or wrong without a word; "" if nothing is
    other: str = ""  # another failure, such as a process that hangs
    traceback: bool = False
    command: str = ""  # the command that failed

    @property
    def failed(self) -> bool:
        """Whether something is wrong."""
        return bool(self.lost or self.other or self.traceback)


class Case(NamedTuple):
    """Something that is tried."""

    kind: str  # a row of the table
    name: str
    attempt: Callable[[Path], Verdict]  # in an empty folder


def campaign(title: str, cases: Iterable[Case], seconds: float) -> list[Table]:
    """Return the table of the cases that fit into some time, and one of the failures if there are any."""
    rows: dict[str, list[int]] = {}
    failures: list[list[Any]] = []
    missing: list[list[Any]] = []
    last = time.monotonic() + seconds
    for case in cases:
        if time.monotonic() > last:
            break
        with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
            try:
                verdict = case.attempt(Path(folder))
            except NotHere as error:
                missing.append([case.kind, case.name, str(error)])
                continue
        row = rows.setdefault(case.kind, [0] * 5)
        found = (verdict.tries, verdict.tries - verdict.failed, bool(verdict.lost), verdict.traceback)
        for i, count in enumerate((*found, bool(verdict.other))):
            row[i] += int(count)
        if verdict.failed:
            what = verdict.lost or verdict.other or "a traceback"
            failures.append([case.kind, case.name, what, verdict.command])
            print(f"{case.kind}, {case.name}: {what}: {verdict.command}", flush=True)
    total = [sum(row[i] for row in rows.values()) for i in range(5)]
    shown = [[kind, *row] for kind, row in rows.items()]
    found = [Table(title=title, columns=COLUMNS, rows=[*shown, ["all", *total]])]
    if failures:
        columns = tables.columns("kind: text; case: text; failure: text; command: text")
        found.append(Table(title=f"{title}, failures", columns=columns, rows=failures))
    if missing:
        columns = tables.columns("kind: text; case: text; why: text")
        found.append(Table(title=f"{title}, not made on this machine", columns=columns, rows=missing))
    return found


def ended(done: Done, codes: Iterable[int | str] = (0, 1, 2)) -> Verdict:
    """Return the verdict on a command that must end in one of some ways, without a traceback."""
    other = "" if done.code in codes else f"ended with {done.code}: {done.last_line}"
    return Verdict(other=other, traceback=done.traceback, command=done.command)


def differences(one: Path, two: Path, best: bool = True) -> str:
    """Return in what two folders of jobs differ, times left out; "" if in nothing. `best`: also the best checkpoint."""
    names = [{str(path.relative_to(top)) for path in _files(top)} for top in (one, two)]
    if names[0] != names[1]:
        return f"files differ: {', '.join(sorted(names[0] ^ names[1]))}"
    for name in sorted(names[0]):
        if not _same(one / name, two / name):
            return f"{name} differs"
    return next(
        (lost for place in CHECKPOINTS[: 1 + best] if (lost := _checkpoints_differ(one / place, two / place))), ""
    )


def shapes_differ(one: Path, two: Path) -> str:
    """Return in what files, rows or checkpoints of two folders differ, whatever the numbers; "" if in none."""
    names = [{str(path.relative_to(top)) for path in _files(top)} for top in (one, two)]
    if names[0] != names[1]:
        return f"files differ: {', '.join(sorted(names[0] ^ names[1]))}"
    rows = [
        [(row["seed"], row["update"], row["env_steps"]) for row in _rows(top / "metrics.csv")] for top in (one, two)
    ]
    if rows[0] != rows[1]:
        return "metrics.csv has other rows"
    found = [[path.name for path in _numbered(top / "checkpoints")] for top in (one, two)]
    return "" if found[0][-1:] == found[1][-1:] else f"checkpoints {found[1]} instead of {found[0]}"


CHECKPOINTS = ("checkpoints", "checkpoints/best")


def _numbered(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*[0-9]"))


def _checkpoints_differ(one: Path, two: Path) -> str:
    found = [_numbered(folder) for folder in (one, two)]
    if not all(found):
        return "one has no checkpoint" if any(found) else ""
    newest, other = (paths[-1] for paths in found)
    if newest.name != other.name:
        return f"checkpoint {other.name} instead of {newest.name}"
    arrays, others = _arrays(newest), _arrays(other)
    wrong = [name for name in arrays if arrays[name].tobytes() != others[name].tobytes()]
    return f"checkpoint {newest.name}: {wrong[0]} differs" if wrong else ""


def _files(top: Path) -> list[Path]:
    skipped = ("checkpoints", "frames", "tensorboard")  # event files are named after the time
    found = [path for path in top.rglob("*") if not any(part in skipped for part in path.relative_to(top).parts)]
    return [path for path in found if path.is_file() and path.suffix != ".png"]


def _same(one: Path, two: Path) -> bool:
    if one.name == "report.html":
        return True  # it shows times
    if one.suffix == ".csv":
        return _rows(one) == _rows(two)
    if one.suffix == ".npz":
        with np.load(one) as a, np.load(two) as b:
            return a.files == b.files and all(
                _timed(name) or a[name].tobytes() == b[name].tobytes() for name in a.files
            )
    if one.suffix == ".json":
        return _untimed(json.loads(one.read_text())) == _untimed(json.loads(two.read_text()))
    if one.suffix == ".toml":  # the requested number of devices is not a part of the result
        texts = (path.read_text(encoding="utf-8").splitlines() for path in (one, two))
        first, second = ([line for line in text if not line.startswith("devices = ")] for text in texts)
        return first == second
    return one.read_bytes() == two.read_bytes()


def _timed(name: str) -> bool:
    return "second" in name


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return [_untimed(row) for row in csv.DictReader(file)]


def _untimed(values: Any) -> Any:
    if not isinstance(values, dict):
        return values
    return {name: _untimed(value) for name, value in values.items() if not _timed(name)}


def _arrays(path: Path) -> dict[str, np.ndarray]:
    from orbax.checkpoint import v1 as ocp

    stored: Any = ocp.metadata(str(path))
    wanted = {name: np.empty(array.shape, array.dtype) for name, array in stored.metadata.items()}
    loaded: Any = ocp.load(str(path), wanted)
    return {name: np.asarray(array) for name, array in loaded.items()}


class References:
    """Undisturbed jobs, each made once."""

    def __init__(self, folder: Path, timed: bool = True):
        """Keep them in a folder; `timed`: make each twice, as the first one compiles."""
        self._folder, self._timed, self._done = folder, timed, dict[str, Done]()

    def __call__(self, name: str, words: list[str]) -> tuple[Path, Done]:
        """Return (the folder of a job, how its command ended)."""
        path = self._folder / name.replace(" ", "-").replace(",", "")
        if name not in self._done:
            if self._timed:
                runner.run(*words, "--out", f"{path}-first")
            self._done[name] = runner.run(*words, "--out", str(path))
        done = self._done[name]
        if done.code != 0:
            raise RuntimeError(f"the undisturbed job fails: {done.command}\n{done.text}")
        return path, done
