"""`purerl plot`: draw learning curves."""

from pathlib import Path

import click

from purerl.commands.options import PATH, PICTURES, RUN_DIRS, check_file, check_runs, say


@click.command(
    name="plot",
    short_help="Draw the learning curves of runs.",
)
@RUN_DIRS
@click.option("--metric", default="episode_return", metavar="NAME", help="Column of metrics.csv; default the return.")
@click.option("--smooth", type=click.IntRange(1), default=1, metavar="N", help="Mean over the last N rows; default 1.")
@click.option(
    "--x",
    type=click.Choice(["steps", "wall"]),
    default="steps",
    help="Unit of the x axis: environment steps or wall-clock time.",
)
@click.option(
    "--out",
    type=PATH,
    metavar="FILE",
    help="Output picture; default RUN_DIR/curve.png, or curves.png for several runs.",
)
def command(run_dirs: tuple[Path, ...], metric: str, smooth: int, x: str, out: Path | None) -> None:
    """Draw the learning curves of one or several runs, with one set of axes per task.

    \b
    purerl plot runs/ppo-CartPole-v1-1 --metric entropy --smooth 10
    """
    check_runs(run_dirs)
    check_file(out, *PICTURES)
    from purerl.reporting import plot as plots

    view = plots.PlotView(metric=metric, x=x, smooth=smooth)
    single = len(run_dirs) == 1
    path = (
        plots.plot_run(run_dirs[0], out, view) if single else plots.plot_runs(run_dirs, out or Path("curves.png"), view)
    )
    say(path)
