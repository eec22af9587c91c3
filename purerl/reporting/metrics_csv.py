"""A run's rows: metrics.csv, one row per seed and logged update."""

import contextlib
import csv
import io
import os
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from purerl.errors import InputError
from purerl.reporting.files import append, write_whole
from purerl.trust import reading

FIRST_COLUMNS = (
    "seed", "update", "env_steps", "wall_seconds", "episode_return", "episode_length", "episodes", "evaluation_return",
)  # fmt: skip
COUNTS = ("seed", "update", "env_steps", "generation")
MOST = 2**53  # that a count may be: a float holds each
NEEDED = ("seed", "update", "env_steps", "episode_return", "evaluation_return")  # to draw and to summarize


class Log:
    """The open file of a run, to which rows are appended."""

    def __init__(
        self,
        path: Path,
        upto: int | None = None,
        first: Sequence[str] = FIRST_COLUMNS,
        counter: str = "update",
        *,
        others: Sequence[str] = (),
        rows: int = 0,
        checksum: int = 0,
        tell: Callable[[str], None] = print,
    ):
        """Open the file.

        Damaged rows of an older file are reported, left out, and kept in metrics.csv.damaged; the other rows stay.

        Args:
          path: metrics.csv.
          upto: keep the rows up to this update, as a checkpoint found them; None for a file that is not there yet.
          first: the columns that come first; the others are in the order of their names.
          counter: the column that `upto` limits.
          others: the other columns, if they are known before the first row.
          rows: how many rows up to `upto` there must be.
          checksum: the checksum of the file's bytes up to them; 0 if it is not known.
          tell: a function that is called with a line about each loss.

        Raises:
          InputError: if there is a link at `path`.
        """
        self.columns: list[str] = []
        self._first, self.rows, self.checksum = first, 0, 0
        if upto is not None:
            known = [*first, *sorted(others)] if others else []
            self.columns, self.rows, self.checksum = _repair(path, upto, counter, known, expected=rows, tell=tell)
            if checksum not in (0, self.checksum) and self.rows == rows:
                tell(f"{path} was changed after it was written: other values in its {rows} rows are kept")
        self._file: IO[bytes] = append(path)
        self._path, self._tell, self._late = path, tell, b""  # what the disk did not take yet

    def write(self, rows: Sequence[dict[str, object]]) -> None:
        """Append rows of one update; float32 numbers are written so that they read back the same.

        Rows that cannot be written to the disk are reported, and written with later rows.
        """
        lines = []
        if not self.columns:
            self.columns = [*self._first, *sorted(name for name in rows[0] if name not in self._first)]
            lines = [",".join(self.columns)]
        lines += [",".join(_text(row.get(name, "")) for name in self.columns) for row in rows]
        waiting, added = bool(self._late), ("\n".join(lines) + "\n").encode()
        self._late += added
        self.checksum = zlib.crc32(added, self.checksum)
        self.rows += len(rows)
        try:
            self._flush()
        except OSError as error:
            if not waiting:
                self._tell(f"cannot write {self._path}: {error.strerror}; its rows are written later")

    def _flush(self) -> None:
        while self._late:
            self._late = self._late[self._file.write(self._late) :]

    def close(self) -> None:
        """Write the remaining rows and close the file, if it is open.

        Raises:
          OSError: if the disk does not take it.
        """
        if self._file.closed:
            return
        with self._file:
            try:
                self._flush()
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self._path)) from None


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)  # a NumPy float prints its shortest exact form


class _Found(NamedTuple):
    """The content of a file."""

    columns: list[str]
    rows: list[list[str]]  # those that can be read
    damaged: int  # lines that cannot


def _repair(
    path: Path, upto: int, counter: str, known: list[str], expected: int, tell: Callable[[str], None]
) -> tuple[list[str], int, int]:
    """Drop damaged rows and those beyond `upto`; return (the columns, the number of rows left, a checksum)."""
    found = _Found(columns=[], rows=[], damaged=0)
    if path.is_dir() and not path.is_symlink():
        _set_aside(path)
    elif reading.is_file(path):
        found = _parse(reading.content(path, reading.TABLE), counter, known)
    elif os.path.lexists(path):
        raise InputError(f"cannot write {path}: it is not a regular file")
    if found.damaged or (expected and not found.columns and reading.is_file(path) and path.stat().st_size):
        _set_aside(path)
    elif not found.columns:
        path.unlink(missing_ok=True)  # the beginning of a first line
    where = found.columns.index(counter) if found.columns else 0
    kept = [row for row in found.rows if float(row[where]) <= upto]
    lost = max(expected - len(kept), 0)
    if lost or found.damaged:
        why = f"{found.damaged} damaged lines are in {path.name}.damaged" if found.damaged else "they are not there"
        tell(
            f"{path} has lost {lost} of {max(expected, len(kept))} rows up to {counter} {upto}: {why}; the others stay"
        )
    text = "".join(",".join(row) + "\n" for row in [found.columns, *kept] if row)
    if found.columns and (not path.exists() or reading.content(path, reading.TABLE) != text.encode()):
        write_whole(path, text)
    return found.columns, len(kept), zlib.crc32(text.encode())


def _set_aside(path: Path) -> None:
    aside = path.with_name(f"{path.name}.damaged")
    with contextlib.suppress(OSError):  # a folder of that name that is not empty
        os.replace(path, aside)


def _parse(data: bytes, counter: str, known: list[str]) -> _Found:
    """Return the content of a file's text; an incomplete last line is left out silently."""
    *lines, _ = data.decode("utf-8", errors="replace").split("\n")
    if not lines:
        return _Found(columns=[], rows=[], damaged=0)
    header = lines[0].split(",")
    other = len(header) == len(known) and header != known
    whole = counter in header and len(set(header)) == len(header) and all(header) and not other
    columns, lines = (header, lines[1:]) if whole else (known, lines)
    rows = [line.split(",") for line in lines]
    good = [row for row in rows if len(row) == len(columns) and _is_row(dict(zip(columns, row, strict=True)), counter)]
    damaged = len(rows) - len(good)
    return _Found(columns=columns, rows=good, damaged=damaged if whole else max(damaged, 1))


def _is_row(cells: dict[str, str], counter: str) -> bool:
    try:
        numbers = {name: float(cell) for name, cell in cells.items() if cell}
    except ValueError:
        return False
    return numbers.get(counter, 0.5).is_integer()


def read(path: Path, needed: Sequence[str] = NEEDED) -> dict[str, np.ndarray]:
    """Return the columns of a metrics.csv, {name: float64 array}; an empty cell is NaN.

    Raises:
      InputError: if there is none, no row in it, or a row that cannot be read.
    """
    rows = csv.reader(io.StringIO(reading.text(path, reading.TABLE), newline=""))
    try:
        names = next(rows, [])
        table = _numbers(rows, len(names), path)
    except (ValueError, csv.Error) as error:
        raise error if isinstance(error, InputError) else InputError(f"{path} is damaged: {error}") from None
    if not len(table):
        raise InputError(f"{path} has no rows yet")
    missing = [name for name in needed if name not in names]
    if missing:
        raise InputError(f"{path} is damaged: its first line names no {missing[0]}")
    if len(set(names)) < len(names):
        raise InputError(f"{path} is damaged: its first line names a column twice")
    return {name: _column(table[:, i], name, path) for i, name in enumerate(names)}


def _numbers(rows: Iterable[list[str]], width: int, path: Path) -> np.ndarray:
    """Return f64[rows, width]; an incomplete last row is left out, as while it is being written."""
    numbers, odd = array("d"), 0
    for i, row in enumerate(rows, 2):
        if odd:
            raise InputError(f"{path} is damaged: line {i - 1} has {odd} numbers instead of {width}")
        if len(row) == width:
            numbers.extend(float(cell) if cell else np.nan for cell in row)
        else:
            odd = max(len(row), 1)
    return np.frombuffer(numbers, np.float64).reshape(-1, max(width, 1))


def _column(values: np.ndarray, name: str, path: Path) -> np.ndarray:
    """Return a column, with integer type for counts; numbers beyond float32 become NaN."""
    with np.errstate(invalid="ignore"):
        if name in COUNTS and not ((values >= 0) & (values <= MOST) & (np.floor(values) == values)).all():
            raise InputError(f"{path} is damaged: {name} is not a count in each row")
        if name == "wall_seconds" and not ((values >= 0) & (values <= MOST)).all():
            raise InputError(f"{path} is damaged: {name} is not a time in each row")
        return values if name in COUNTS else np.where(np.abs(values) <= np.finfo(np.float32).max, values, np.nan)


def metrics(columns: dict[str, np.ndarray]) -> list[str]:
    """Return the names of the algorithm's and the environment's metrics, in the order of the file."""
    return [name for name in columns if name not in FIRST_COLUMNS]


def by_seed(
    columns: dict[str, np.ndarray], name: str, x: str = "env_steps"
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return one column as curves: seed -> (the column x, values), without NaN."""
    order = np.argsort(columns["seed"], kind="stable")
    seeds, starts = np.unique(columns["seed"][order], return_index=True)
    known = [part[~np.isnan(columns[name][part])] for part in np.split(order, starts[1:])]
    return {int(seed): (columns[x][part], columns[name][part]) for seed, part in zip(seeds, known, strict=True)}
