"""`purerl explain`: estimates the cost of a run before it starts."""

from pathlib import Path

import click

from purerl.commands.algorithm_command import AlgorithmCommand
from purerl.commands.flags import flags_of
from purerl.commands.options import CONFIG, TRUST, say, take_modules, tell, typed
from purerl.settings.options import RunOptions


@flags_of(RunOptions, only=("seeds", "extension"))
@click.command(name="explain", short_help="Estimate the cost of a run.", cls=AlgorithmCommand)
@click.argument("algorithm", required=False)
@click.argument("environment", required=False)
@CONFIG
@TRUST
def command(
    algorithm: str | None,
    environment: str | None,
    config_file: Path | None,
    trust: tuple[str, ...],
    **flags: object,
) -> None:
    """Try a run briefly: its cost per step, its memory, its speed, and the speed with other settings.

    \b
    purerl explain ppo CartPole-v1
    purerl explain dqn Breakout-MinAtar --seeds 4 --batch-size 64
    """
    from purerl.settings.extensions import named
    from purerl.settings.runs import settings

    parameters, given = typed(flags)
    take_modules(trust, algorithm, environment, *named(given))
    run = settings(algorithm, environment, given, parameters, config_file)
    from purerl.profiling import explain

    say("\n".join(explain.lines(run, explain.explain(run, tell))))
