"""`purerl list`: names of environments, algorithms, objectives and configs."""

import click

from purerl.registry import ALGORITHMS, OBJECTIVES, SUITES


@click.group(name="list")
def command() -> None:
    """List environments, algorithms, objectives or configs."""


@command.command()
@click.option("--suite", metavar="SUITE", help="List this suite's environments instead.")
def envs(suite: str | None) -> None:
    """List the environments and the suites that adapters reach."""
    from purerl.registry import installed, names

    if suite is not None:
        click.echo("\n".join(names(suite)))
        return
    click.echo("\n".join(sorted(names())))
    for suite, entry in sorted(SUITES.items()):
        missing = "" if installed(suite) else f"; not installed: pip install 'purerl[{entry.extra or suite}]'"
        click.echo(f"{suite}/NAME  (such as {entry.example}{missing})")


@command.command()
def algos() -> None:
    """List the algorithms, the actions they take and their papers."""
    for name, entry in sorted(ALGORITHMS.items()):
        click.echo(f"{name:10} {entry.summary}; {', '.join(entry.actions)} actions; {entry.source}")


@command.command()
def objectives() -> None:
    """List the starts of `purerl evolve`, with the part of an algorithm that each is and its paper."""
    for name, entry in OBJECTIVES.items():
        click.echo(f"{name:13} {entry.argument} of {entry.algorithm}: {entry.summary}; {entry.source}")


@command.command()
def configs() -> None:
    """List the tuned settings, by algorithm and environment."""
    from purerl.settings.runs import names

    for algorithm, environment in names():
        click.echo(f"{algorithm:10} {environment}")
