"""`purerl report`: writes a page about one or several runs."""

from pathlib import Path

import click

from purerl.commands.options import PATH, RUN_DIRS, check_file, check_runs, say
from purerl.errors import InputError


@click.command(
    name="report",
    short_help="Write a page about runs.",
)
@RUN_DIRS
@click.option(
    "--out",
    type=PATH,
    metavar="FILE",
    help="Output page of several runs; default report.html. The page of one run goes to its folder.",
)
def command(run_dirs: tuple[Path, ...], out: Path | None) -> None:
    """Write one self-contained page: a run's curve, metrics, settings and video, or a comparison of several runs.

    \b
    purerl report runs/ppo-CartPole-v1-1
    purerl report runs/ppo-CartPole-v1-1 runs/dqn-CartPole-v1-1 --out both.html
    """
    check_runs(run_dirs)
    if len(run_dirs) == 1 and out is not None:
        raise InputError("--out only works with several runs; the page of one run is written to its folder")
    check_file(out, ".html")
    from purerl.reporting import report

    one = len(run_dirs) == 1
    say(report.write_report(run_dirs[0]) if one else report.write_comparison(run_dirs, out or Path(report.FILE)))
