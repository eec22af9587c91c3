"""`purerl check`: check an environment or an algorithm against its contract."""

from pathlib import Path
from typing import Any

import click

from purerl.catalog.algorithms import ALGORITHMS
from purerl.commands.options import PATH, EnvironmentCommand, check_file, say, take_modules, tell, typed
from purerl.errors import InputError

ACTIONS = ("discrete", "multi-discrete", "continuous", "dict")


@click.command(name="check", cls=EnvironmentCommand)
@click.argument("name", metavar="ENVIRONMENT|ALGORITHM", default="")
@click.option("--steps", type=click.IntRange(8), default=128, metavar="N", help="Steps of random play; default 128.")
@click.option(
    "--actions",
    type=click.Choice(ACTIONS),
    multiple=True,
    help="The kind of actions that your algorithm takes; repeat it for several; default discrete.",
)
@click.option(
    "--suite", metavar="NAME", help="Check every id of this suite, or of native; train on each with two algorithms."
)
@click.option("--env.NAME", "env_parameter", metavar="VALUE", help="A parameter of the environment: --env.gravity 12.")
@click.option(
    "--only",
    metavar="PATTERN",
    multiple=True,
    help="Of the suite, these ids alone, such as 'MiniGrid-*'; repeat it for several.",
)
@click.option(
    "--out",
    type=PATH,
    metavar="FILE",
    help="The suite's report, which goes on where it ends; default suite-NAME.json.",
)
@click.option(
    "--limit",
    type=click.FloatRange(1.0),
    default=600.0,
    metavar="SECONDS",
    help="Time that an id of a suite may take; default 600.",
)
def command(
    name: str,
    steps: int,
    actions: tuple[str, ...],
    suite: str | None,
    env_parameter: str | None,
    only: tuple[str, ...],
    out: Path | None,
    limit: float,
) -> None:
    """Check an environment, such as your module:Class, against the contract, and measure its speed.

    A module:function, (spec, config: MyConfig) -> Algorithm, is checked against the contract of algorithms.

    \b
    purerl check my_module:MyEnvironment
    purerl check --suite gymnax
    purerl check --suite brax --env.backend spring --only 'inverted*' --out brax-spring.json
    """
    parameters, _ = typed({})
    if (suite is None) == (not name):
        raise InputError("check takes an environment, an algorithm, or --suite NAME: one of them")
    if suite is not None:
        _check_suite(suite, out or Path(f"suite-{suite}.json"), limit, only, parameters)
        return
    if out is not None or only:
        raise InputError(f"--{'only' if only else 'out'} is for --suite NAME")
    take_modules((), name)
    from purerl import registry

    if "/" in name:
        registry.check_id(name)  # before JAX and a suite are imported
    if name in ALGORITHMS or (registry.is_own(name) and not isinstance(registry.load(name), type)):
        if parameters:
            raise InputError(f"--env.{next(iter(parameters))} is for an environment, and {name} is an algorithm")
        from purerl.testing import check_algorithm

        try:
            factory, config_class = registry.algorithm(name)
        except InputError as error:
            raise InputError(f"{name} is no environment, which is a class; as an algorithm: {error}") from None
        kinds = actions or (ALGORITHMS[name].actions if name in ALGORITHMS else ("discrete",))
        say(check_algorithm(factory, config_class(), actions=kinds, name=name, learn=False))
        return
    from purerl.run.plan import make_environment
    from purerl.testing import check_environment

    env = make_environment(name, parameters)
    tell(f"checking {name}: {steps} steps of random play in several forms, each compiled; about a minute ...")
    say(check_environment(env, num_steps=steps, name=name, measure=True))


def _check_suite(suite: str, file: Path, limit: float, only: tuple[str, ...], fields: dict[str, Any]) -> None:
    from purerl.commands.suites import check_suite

    check_file(file, ".json")
    report = check_suite(suite, file, limit, say, only=only, fields=fields)
    failed = sum(bool(found["failed"]) for found in report["ids"].values())
    say(f"{len(report['ids']) - failed} of {len(report['ids'])} ids hold; see {file}")
    if failed:
        raise click.exceptions.Exit(1)
