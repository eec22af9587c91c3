"""A run's rows: metrics.csv, a row per seed and logged update."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from purerl.errors import InputError
from purerl.reporting.files import write_whole

FIRST_COLUMNS = (
    "seed", "update", "env_steps", "wall_seconds", "episode_return", "episode_length", "episodes", "evaluation_return",
)  # fmt: skip


class Log:
    """The file, open for more rows."""

    def __init__(
        self, path: Path, upto: int | None = None, first: Sequence[str] = FIRST_COLUMNS, counter: str = "update"
    ):
        """Open it.

        Args:
          path: metrics.csv.
          upto: keep the rows up to this update, as a checkpoint found them; None for a file that is not there yet.
          first: the columns that come first; the others are in the order of their names.
          counter: the column that `upto` limits.
        """
        self.columns: list[str] = []
        self._first = first
        if upto is not None and path.exists():
            self.columns = _truncate(path, upto, counter)
        self._file: TextIO = path.open("a", encoding="utf-8", newline="")

    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        """Append rows of one update; float32 numbers are written so that they read back the same."""
        if not self.columns:
            self.columns = [*self._first, *sorted(name for name in rows[0] if name not in self._first)]
            self._file.write(",".join(self.columns) + "\n")
        lines = [",".join(_text(row.get(name, "")) for name in self.columns) for row in rows]
        self._file.write("\n".join(lines) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)  # a NumPy float prints its shortest exact form


def _truncate(path: Path, upto: int, counter: str) -> list[str]:
    """Drop the rows that count beyond `upto`, and a last line that was cut off; return the columns."""
    whole = [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
    if not whole:
        path.unlink()
        return []
    columns = whole[0].strip().split(",")
    where = columns.index(counter)
    kept = [line for line in whole[1:] if int(line.split(",")[where]) <= upto]
    write_whole(path, "".join([whole[0], *kept]))
    return columns


def read(path: Path) -> dict[str, np.ndarray]:
    """Return the columns of a metrics.csv: float64 arrays by name; an empty cell is NaN.

    Raises:
      InputError: if there is none, or no row in it.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    rows = [row for row in rows if len(row) == len(rows[0])]  # a line that is being written is left out
    if len(rows) < 2:
        raise InputError(f"{path} has no rows yet")
    try:
        table = np.array([[float(cell) if cell else np.nan for cell in row] for row in rows[1:]])
    except ValueError as error:
        raise InputError(f"{path} is not a run's metrics: {error}") from None
    return {name: table[:, i] for i, name in enumerate(rows[0])}


def by_seed(columns: dict[str, np.ndarray], name: str) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return one column as curves: seed -> (env_steps, values), without NaN."""
    curves = {}
    for seed in sorted(set(columns["seed"].astype(int).tolist())):
        known = (columns["seed"] == seed) & ~np.isnan(columns[name])
        curves[seed] = columns["env_steps"][known], columns[name][known]
    return curves
