"""`python -m benchmarks`: the speed of purerl on this machine, alone or compared with other frameworks."""

import os
from pathlib import Path
from typing import Any

import click

from benchmarks import groups
from purerl.commands.cli import main
from purerl.commands.options import PATH
from purerl.errors import InputError, unknown

GROUPS = "\b\n" + "\n".join(f"{name:20} {entry.help}" for name, entry in groups.BENCHMARKS.items())


@click.command(name="benchmarks", epilog=GROUPS, context_settings={"max_content_width": 120})
@click.argument("words", nargs=-1, metavar="[GROUP[.PART] ...]")
@click.option(
    "--against",
    metavar="NAME,...",
    default="",
    help="gymnax, gymnasium, envpool, rejax, brax, torch, sb3 or sb3=PYTHON; purejaxrl=FOLDER and other checkouts.",
)
@click.option(
    "--here", type=PATH, metavar="DIR", help="Opponents run in this Python; DIR/NAME has packages of one of them."
)
@click.option("--envs", metavar="ID,...", default="", help="For environments: which; default: all native ones.")
@click.option("--runs", default=5, metavar="N", help="Timed runs of each program; default 5.")
@click.option("--size", default=1.0, metavar="X", help="A factor on the steps of a run; below 1 to try it out.")
@click.option("--tiny", is_flag=True, help="For gpu: few environments, seeds and steps, on any device; a dry run.")
@click.option("--minutes", default=30.0, metavar="X", help="For faults: of all its groups together; default 30.")
@click.option("--devices", type=int, metavar="N", help="Devices that a CPU is divided into, for programs over devices.")
@click.option("--missing", is_flag=True, help="Leave out what this machine's report has already.")
@click.option("--out", type=PATH, default=Path("results"), metavar="DIR", help="The report's folder; default results/.")
@click.option("--readme", type=PATH, metavar="FILE", help="Also write the blocks of this page from the report.")
def command(
    words: tuple[str, ...],
    against: str,
    here: Path | None,
    envs: str,
    runs: int,
    size: float,
    tiny: bool,
    minutes: float,
    devices: int | None,
    missing: bool,
    out: Path,
    readme: Path | None,
) -> None:
    """Measure groups of figures, by default without opponents, and write results/benchmark-MACHINE.json.

    Opponents train the same tasks with the same settings, in turn with purerl, in separate processes. For each package,
    uv downloads a temporary environment. If an opponent fails, its error is shown. Each group is written as soon as it
    is measured.

    \b
    python -m benchmarks training --against rejax,sb3,purejaxrl=../purejaxrl
    python -m benchmarks environments --against gymnax,envpool --envs CartPole-v1,Breakout-MinAtar
    python -m benchmarks pool scale.halving --missing
    python -m benchmarks faults --minutes 30             # fault injection
    """
    from benchmarks import opponents
    from purerl.catalog.environments import ENVIRONMENTS

    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # frameworks share the memory of a GPU
    names = groups.select(words)
    ids = _names(envs) or list(ENVIRONMENTS)
    for env_id in ids:
        if env_id not in ENVIRONMENTS:
            raise unknown("environment", env_id, ENVIRONMENTS)
    if runs < 1 or not 0 < size <= 1 or not minutes > 0:
        raise InputError(f"--runs {runs} must be at least 1, --size {size} above 0 and at most 1, --minutes above 0")
    trainers, hosts, gymnax = opponents.chosen(_names(against), here)
    request = groups.Request(
        trainers=trainers, hosts=hosts, gymnax=gymnax, envs=ids, runs=runs, size=size, minutes=minutes, tiny=tiny
    )
    from rich.console import Console

    from benchmarks import report, tables
    from purerl.devices.selection import make_host_devices
    from purerl.reporting import summary

    if devices is not None:
        make_host_devices(devices)
    settings: dict[str, Any] = {"runs": runs, "size": size}
    settings |= {"against": [text.partition("=")[0] for text in _names(against)]} | ({"tiny": True} if tiny else {})
    console, machine = Console(), report.machine()
    console.print(", ".join(f"{name} {value}" for name, value in (machine | summary.versions()).items()))
    path = out / report.file_name(machine)
    for name in names:
        if missing and name in report.read(path):
            continue
        measured = groups.BENCHMARKS[name].measure(request)
        for table in measured:
            console.print(tables.show(table))
        path = report.write(out, name, measured, settings)
        console.print(f"{name}: written to {path}")
    if readme is not None:
        report.write_page(readme, path)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


if __name__ == "__main__":
    main(command=command, name="python -m benchmarks")
