"""Tables of figures: numbers as they are kept, and as they are shown."""

from typing import Any, NamedTuple

from rich.markup import escape
from rich.table import Table as RichTable

KINDS = ("text", "count", "rate", "ratio", "share", "seconds", "bytes", "number")


class Table(NamedTuple):
    """Figures of one group: rows of cells, each a text, a number, None, or a median with its range."""

    title: str
    columns: list[tuple[str, str]]  # name and kind, one of `KINDS`
    rows: list[list[Any]]


def of_json(found: dict[str, Any]) -> Table:
    """Return the table that was kept."""
    return Table(found["title"], [(name, kind) for name, kind in found["columns"]], found["rows"])


def show(table: Table) -> RichTable:
    """Return it for the screen."""
    made = RichTable(title=table.title, title_justify="left")
    for place, (name, kind) in enumerate(table.columns):
        made.add_column(name, justify="left" if kind == "text" else "right", overflow="fold", ratio=1 - min(place, 1))
    for row in table.rows:
        made.add_row(*(escape(text) for text in _cells(table, row)))  # brackets are no markup
    return made


def markdown(table: Table) -> str:
    """Return it for a page."""
    names = [name for name, _ in table.columns]
    rule = ["---" if kind == "text" else "---:" for _, kind in table.columns]
    lines = [names, rule, *(_cells(table, row) for row in table.rows)]
    return "\n".join([f"{table.title}:", "", *("| " + " | ".join(line) + " |" for line in lines)])


def _cells(table: Table, row: list[Any]) -> list[str]:
    return [cell(value, kind) for value, (_, kind) in zip(row, table.columns, strict=True)]


def cell(value: Any, kind: str) -> str:
    """Return one cell as text; a median is followed by its range."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        low, high = cell(value["low"], kind), cell(value["high"], kind)
        middle = cell(value["median"], kind)
        return middle if low == high else f"{middle} ({low} to {high})"
    return {
        "text": str,
        "count": lambda x: f"{x:,.0f}",
        "rate": _rate,
        "ratio": lambda x: f"{x:.2f}x" if x < 10 else f"{x:.0f}x",
        "share": lambda x: f"{x:.0%}",
        "seconds": lambda x: f"{x:.2f} s" if x < 10 else f"{x:.0f} s",
        "bytes": lambda x: f"{x / 1e9:.2f} GB" if x >= 1e8 else f"{x / 1e6:.2f} MB",
        "number": lambda x: f"{x:.3g}" if abs(x) < 100 else f"{x:.0f}",
    }[kind](value)


def _rate(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.{2 if value < 10 * size else 1 if value < 100 * size else 0}f}{unit}"
    return f"{value:.0f}"
