"""`purerl compare`: ranks runs, with differences and confidence intervals."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from purerl.commands.options import PATH, PICTURES, check_file, check_runs
from purerl.errors import InputError, printable

if TYPE_CHECKING:
    from rich.console import Console

NAME_WIDTH = 31  # letters of a run's name that stay on one line, next to the figures on 80 columns


@click.command(
    name="compare",
    short_help="Compare final returns, with intervals.",
)
@click.argument("run_dirs", type=PATH, nargs=-1, required=True, metavar="RUN_DIR RUN_DIR...")
@click.option(
    "--out", type=PATH, default=Path("compare.png"), metavar="FILE", help="Output picture; default compare.png."
)
def command(run_dirs: tuple[Path, ...], out: Path) -> None:
    """Compare the final returns of finished runs over their seeds; a failed seed counts as the worst return.

    Runs of several tasks, one of each algorithm for each task, are compared by normalized returns.

    \b
    purerl compare runs/ppo-CartPole-v1-1 runs/dqn-CartPole-v1-1
    purerl compare runs/*
    """
    if len(run_dirs) < 2:
        raise InputError("compare needs two runs or more: purerl compare RUN_DIR RUN_DIR")
    if len({folder.resolve() for folder in run_dirs}) < len(run_dirs):
        raise InputError("compare needs different runs; one is named twice")
    check_runs(run_dirs)
    check_file(out, *PICTURES)
    from rich.console import Console

    from purerl.reporting import compare, tasks

    console = Console(highlight=False, markup=False, emoji=False)
    if len({compare.load(folder).task for folder in run_dirs}) > 1:
        found = tasks.load(run_dirs)
        names = ("algorithm", "seeds", "IQM", "95% interval", "median", "mean", "P(first > it)")
        _show(console, f"Normalized return over {len(found.tasks)} tasks", names, tasks.table(found))
        for task, (low, high) in found.scale.items():
            console.print(printable(f"{task}: 0 is {low:.5g}, 1 is {high:.5g}"), soft_wrap=True)
        tasks.draw(found, out)
        console.print(printable(f"see {out}"), soft_wrap=True)
        return
    runs = compare.rank(run_dirs)
    names = ("run", "seeds", "IQM", "95% interval", "mean", "range", "curve area")
    _show(console, f"Final return on {runs[0].task}", names, compare.table(runs))
    if told := compare.other_tasks(runs):
        console.print(printable(told), soft_wrap=True)
    for other in runs[1:]:
        console.print(printable(compare.verdict(compare.duel(runs[0], other), runs[0], other)), soft_wrap=True)
    compare.draw(runs, out)
    console.print(printable(f"see {out}"), soft_wrap=True)


def _show(console: "Console", title: str, names: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.table import Table

    shown = Table(title=printable(title), title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    columns = list(zip(names, *rows, strict=True))
    room = console.width - sum(max(map(len, column)) + 2 for column in columns)
    for index, (name, *cells) in enumerate(columns):
        words = max(len(word) for cell in (name, *cells) for word in cell.split())
        width = words if index and room < 0 else None  # figures break between words, names stay whole
        widest = min(max(map(len, cells)), NAME_WIDTH) if index == 0 else None
        justify = "right" if index else "left"
        shown.add_column(name, justify=justify, width=width, min_width=widest, overflow="fold")
    for row in rows:
        shown.add_row(*map(printable, row))
    console.print(shown)
