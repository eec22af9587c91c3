"""`purerl list`: names of environments, algorithms, objectives, configs and trained agents."""

import click

from purerl.catalog.about_environments import ABOUT
from purerl.catalog.algorithms import ALGORITHMS
from purerl.catalog.environments import SUITES
from purerl.catalog.objectives import OBJECTIVES
from purerl.errors import install


@click.group(
    name="list",
    short_help="List environments, algorithms, configs, agents.",
)
def command() -> None:
    """List environments, algorithms, objectives, configs or trained agents."""


@command.command(short_help="List the environments and the suites.")
@click.option("--suite", metavar="SUITE", help="List this suite's environments instead.")
def envs(suite: str | None) -> None:
    """List the environments (players, spaces, task) and the suites that adapters provide."""
    from purerl.registry import installed, names

    if suite is not None:
        click.echo("\n".join(names(None if suite == "native" else suite)))
        return
    for name, about in sorted(ABOUT.items()):
        click.echo(f"{name:25} {about}")
    for suite, entry in sorted(SUITES.items()):
        missing = "" if installed(suite) else f"; not installed: {install(entry.extra or suite)}"
        click.echo(f"{suite}/NAME  (such as {entry.example}{missing})")


@command.command()
def algos() -> None:
    """List the algorithms, their actions and papers."""
    for name, entry in sorted(ALGORITHMS.items()):
        click.echo(f"{name:10} {entry.summary}; {', '.join(entry.actions)} actions; {entry.source}")


@command.command(short_help="List published objectives and starting points.")
def objectives() -> None:
    """List the starting points of `purerl evolve`, the part of an algorithm that each replaces, and its paper.

    Published objectives follow, which `purerl train --objective zoo/NAME` trains with.
    """
    from purerl import zoo
    from purerl.settings import agent_file

    for name, entry in OBJECTIVES.items():
        click.echo(f"{name:13} {entry.argument} of {entry.algorithm}: {entry.summary}; {entry.source}")
    for name in zoo.objectives():
        algorithm = OBJECTIVES[agent_file.about(zoo.objective_path(name))["objective"]].algorithm
        click.echo(f"zoo/{name}  published: purerl train {algorithm} ENV --objective zoo/{name}")


@command.command()
def configs() -> None:
    """List the tuned settings, by algorithm and environment."""
    from purerl.settings.runs import names

    for algorithm, environment in names():
        click.echo(f"{algorithm:10} {environment}")


@command.command(short_help="List the trained agents.")
def agents() -> None:
    """List the trained agents, for: purerl evaluate zoo/NAME, play zoo/NAME, train ... --start zoo/NAME."""
    from purerl import zoo
    from purerl.settings import agent_file, toml

    for name in zoo.here():
        path = zoo.path_of(name)
        table, said = toml.read(path), agent_file.about(path)
        steps = float(table["num_envs"]) * float(table["rollout_length"]) * int(said["update"])
        reached = f"return {float(said['return']):8.5g}" if "return" in said else _losses(said)
        click.echo(f"zoo/{name:32} {reached} after {steps:.3g} steps")
    if missing := len(zoo.names()) - len(zoo.here()):
        click.echo(f"{missing} more are in the zoo/ folder of purerl's repository")


def _losses(said: dict[str, str]) -> str:
    """Return how many games an agent loses against each scripted player."""
    named = {name.removeprefix("lost_"): float(share) for name, share in said.items() if name.startswith("lost_")}
    return ", ".join(f"loses {share:.1%} against {name}" for name, share in named.items())
