"""Tables of figures: numbers as JSON stores them, and as text for the screen or a page."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.markup import escape
from rich.table import Table as RichTable

KINDS = ("text", "count", "rate", "ratio", "share", "seconds", "bytes", "number")
FAILED = "did not start: "  # the beginning of a cell of an opponent that failed


class Table(NamedTuple):
    """One table; a cell is a text, a number, None, or a median with its range (`timing.spread`)."""

    title: str
    columns: list[tuple[str, str]]  # name and kind, one of `KINDS`
    rows: list[list[Any]]


def columns(text: str) -> list[tuple[str, str]]:
    """Return the columns that a text such as "environment: text; steps/s: rate" names."""
    pairs = (entry.rsplit(":", 1) for entry in text.split(";"))
    return [(name.strip(), kind.strip()) for name, kind in pairs]


def from_json(stored: dict[str, Any]) -> Table:
    """Return a table that was stored as JSON."""
    pairs = [(name, kind) for name, kind in stored["columns"]]
    return Table(title=stored["title"], columns=pairs, rows=stored["rows"])


def without(table: Table, names: Sequence[str]) -> Table:
    """Return the table without the columns of some names."""
    kept = [index for index, (name, _) in enumerate(table.columns) if name not in names]
    rows = [[row[index] for index in kept] for row in table.rows]
    return table._replace(columns=[table.columns[index] for index in kept], rows=rows)


def show(table: Table) -> RichTable:
    """Return the table for the screen."""
    shown = RichTable(title=table.title, title_justify="left")
    for index, (name, kind) in enumerate(table.columns):
        shown.add_column(name, justify="left" if kind == "text" else "right", overflow="fold", ratio=1 - min(index, 1))
    for row in table.rows:
        shown.add_row(*(escape(text) for text in _cells(table, row)))  # brackets are not markup
    return shown


def markdown(table: Table) -> str:
    """Return the table for a page; rows of opponents that did not start become one line below it."""
    failed = [row for row in table.rows if _failed(row)]
    names = [name for name, _ in table.columns]
    rule = ["---" if kind == "text" else "---:" for _, kind in table.columns]
    lines = [names, rule, *(_cells(table, row) for row in table.rows if row not in failed)]
    text = "\n".join([f"{table.title}:", "", *("| " + " | ".join(line) + " |" for line in lines)])
    if failed:
        who = [[str(cell) for cell in row if cell is not None and not _failed([cell])] for row in failed]
        text += "\n\nDid not start: " + "; ".join(" by ".join(cells) for cells in who) + "."
    return text


def _failed(row: list[Any]) -> bool:
    return any(isinstance(value, str) and value.startswith(FAILED) for value in row)


def _cells(table: Table, row: list[Any]) -> list[str]:
    return [cell(value, kind) for value, (_, kind) in zip(row, table.columns, strict=True)]


def cell(value: Any, kind: str) -> str:
    """Return one cell as text; a median is followed by its range."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        middle, low, high = (cell(value[name], kind) for name in ("median", "low", "high"))
        return middle if low == high else f"{middle} ({low} to {high})"
    return {
        "text": str,
        "count": lambda x: f"{x:,.0f}",
        "rate": _rate,
        "ratio": lambda x: f"{x:.2f}x" if x < 10 else f"{x:.0f}x",
        "share": lambda x: f"{x:.0%}" if x >= 0.1 else f"{x:.1%}",
        "seconds": lambda x: f"{x:.2f} s" if x < 10 else f"{x:.0f} s",
        "bytes": lambda x: f"{x / 1e9:.2f} GB" if x >= 1e8 else f"{x / 1e6:.2f} MB",
        "number": lambda x: f"{x:.3g}" if abs(x) < 100 else f"{x:.0f}",
    }[kind](value)


def _rate(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.{2 if value < 10 * size else 1 if value < 100 * size else 0}f}{unit}"
    return f"{value:.0f}"
