"""`purerl plot`: draw learning curves."""

from pathlib import Path

import click

from purerl.commands.options import PATH, say
from purerl.errors import InputError


@click.command(name="plot")
@click.argument("run_dirs", type=PATH, nargs=-1, required=True, metavar="RUN_DIR...")
@click.option(
    "--out", type=PATH, metavar="FILE", help="The picture; default RUN_DIR/curve.png, or curves.png for several."
)
def command(run_dirs: tuple[Path, ...], out: Path | None) -> None:
    """Draw the learning curves of one or several runs."""
    from purerl.reporting import plot as plots

    for folder in run_dirs:
        if not folder.is_dir():
            raise InputError(f"there is no run in {folder}: no such folder")
    single = len(run_dirs) == 1
    path = plots.plot_run(run_dirs[0], out) if single else plots.plot_runs(run_dirs, out or Path("curves.png"))
    say(path)
