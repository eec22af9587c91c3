"""`purerl compare`: ranks runs, with differences and their certainty."""

from pathlib import Path

import click

from purerl.commands.options import PATH, PICTURES, check_file, check_runs
from purerl.errors import InputError, printable


@click.command(name="compare")
@click.argument("run_dirs", type=PATH, nargs=-1, required=True, metavar="RUN_DIR RUN_DIR...")
@click.option("--out", type=PATH, default=Path("compare.png"), metavar="FILE", help="The picture; default compare.png.")
def command(run_dirs: tuple[Path, ...], out: Path) -> None:
    """Compare the final returns of finished runs on one task, over their seeds; one that failed counts as the worst.

    \b
    purerl compare runs/ppo-CartPole-v1-1 runs/dqn-CartPole-v1-1
    """
    if len(run_dirs) < 2:
        raise InputError("compare needs two runs or more: purerl compare RUN_DIR RUN_DIR")
    if len({folder.resolve() for folder in run_dirs}) < len(run_dirs):
        raise InputError("compare needs different runs; one is named twice")
    check_runs(run_dirs)
    check_file(out, *PICTURES)
    from rich.console import Console
    from rich.table import Table

    from purerl.reporting import compare

    runs = compare.rank(run_dirs)
    shown = Table(title=printable(f"Final return on {runs[0].task}"), title_justify="left")
    for name in ("run", "seeds", "IQM", "95% interval", "mean", "range", "curve area"):
        shown.add_column(name, justify="left" if name == "run" else "right", no_wrap=name != "run")
    for row in compare.table(runs):
        shown.add_row(*map(printable, row))
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(shown)
    if told := compare.other_tasks(runs):
        console.print(printable(told), soft_wrap=True)
    for other in runs[1:]:
        console.print(printable(compare.verdict(compare.duel(runs[0], other), runs[0], other)), soft_wrap=True)
    compare.draw(runs, out)
    console.print(printable(f"see {out}"), soft_wrap=True)
