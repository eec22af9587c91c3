"""`python -m benchmarks`: how fast purerl is on this machine, alone or beside others."""

from pathlib import Path

import click

from purerl.commands.cli import main
from purerl.commands.options import PATH
from purerl.errors import InputError, unknown


@click.command(name="benchmarks")
@click.argument("groups", nargs=-1, metavar="[GROUP ...]")
@click.option(
    "--against",
    metavar="NAME,...",
    default="",
    help="gymnax, gymnasium, envpool, rejax, sb3 or sb3=PYTHON, purejaxrl=FOLDER, purejaxql=FOLDER.",
)
@click.option("--envs", metavar="ID,...", default="", help="For environments: which; default: all native ones.")
@click.option("--runs", default=5, metavar="N", help="Timed runs of each program; default 5.")
@click.option("--size", default=1.0, metavar="X", help="A factor on the steps of a run; below 1 to try it out.")
@click.option(
    "--out", type=PATH, default=Path("results"), metavar="DIR", help="Where the figures go; default results/."
)
@click.option("--readme", type=PATH, metavar="FILE", help="Also write all figures of this machine into this page.")
def command(
    groups: tuple[str, ...], against: str, envs: str, runs: int, size: float, out: Path, readme: Path | None
) -> None:
    """Measure GROUPs of figures, or all: training, offpolicy, environments, seeds, compile, memory, gpu.

    Opponents train the same tasks with the same settings, in turn with purerl, in processes of their own. For a package
    uv makes a throw-away environment, for which it uses the network; one that does not start is shown as such.

    \b
    python -m benchmarks training --against rejax,sb3,purejaxrl=../purejaxrl
    python -m benchmarks environments --against gymnax,envpool --envs CartPole-v1,Breakout-MinAtar
    """
    from benchmarks import groups as known
    from benchmarks import opponents
    from purerl import registry
    from purerl.reporting import summary

    for name in groups:
        if name not in known.GROUPS:
            raise unknown("group of figures", name, known.GROUPS)
    ids = _names(envs) or known.DEFAULT_ENVIRONMENTS
    for env_id in ids:
        if env_id not in registry.ENVIRONMENTS:
            raise unknown("environment", env_id, registry.ENVIRONMENTS)
    if runs < 1 or not 0 < size <= 1:
        raise InputError(f"--runs {runs} must be at least 1, --size {size} above 0 and at most 1")
    wish = known.Wish(*opponents.chosen(_names(against)), ids, runs, size)
    from rich.console import Console

    from benchmarks import report, tables

    console, measured = Console(), {}
    console.print(", ".join(f"{name} {value}" for name, value in (report.machine() | summary.versions()).items()))
    path = out / report.file_name(report.machine())
    for name in groups or known.GROUPS:
        measured[name] = known.GROUPS[name](wish)
        for table in measured[name]:
            console.print(tables.show(table))
        path = report.keep(out, {name: measured[name]}, {"runs": runs, "size": size, "against": _names(against)})
    console.print(f"kept in {path}")
    if readme is not None:
        report.write_readme(readme, path)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


if __name__ == "__main__":
    main(command=command, name="python -m benchmarks")
