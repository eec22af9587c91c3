"""Tables as lines of plain text, laid out by rich."""

from collections.abc import Iterable, Sequence

from purerl.errors import printable

WIDE = 10_000  # columns: rich never folds a line; a terminal may


def lines(rows: Iterable[Sequence[object]], columns: Sequence[str] = (), left: int = 1) -> list[str]:
    """Return a table as lines.

    Args:
      rows: cells, shown as `str` does.
      columns: the headline of each; none: no headline.
      left: how many columns begin at their left edge; the others end at their right one.
    """
    from rich.console import Console  # help pages need none
    from rich.table import Table
    from rich.text import Text

    rows = [*([columns] if columns else []), *rows]
    if not rows:
        return []
    cells = [[printable(cell) for cell in row] for row in rows]
    table = Table.grid(padding=(0, 2))
    for i in range(len(cells[0])):
        table.add_column(justify="left" if i < left else "right", no_wrap=True)
    for row in cells:
        table.add_row(*map(Text, row))
    console = Console(width=WIDE, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]
