"""Files written whole or not at all, and tables as CSV."""

import csv
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from purerl.devices import distributed
from purerl.settings.values import to_text


def write_whole(path: Path, content: str | Callable[[Path], Any]) -> None:
    """Write a file so that it appears under its name only when it is complete; of several processes the first does.

    Args:
      path: of the file.
      content: its text, or a function that writes a file at the path it is given.
    """
    if not distributed.is_first():
        return
    part = path.with_name(f"{path.stem}.part{path.suffix}")
    if isinstance(content, str):
        part.write_text(content, encoding="utf-8", newline="")
    else:
        content(part)
    os.replace(part, path)


def csv_text(rows: Sequence[dict[str, Any]], empty: str = "") -> str:
    """Return rows as the text of a CSV file whose columns are those of the first row, or `empty` without rows."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]) if rows else [empty], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: to_text(value) for name, value in row.items()} for row in rows)
    return file.getvalue()
