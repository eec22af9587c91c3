"""`purerl train`: trains agents, or resumes a run."""

from pathlib import Path

import click

from purerl.commands.algorithm_command import AlgorithmCommand
from purerl.commands.flags import flags_of
from purerl.commands.options import (
    CONFIG,
    check_out,
    job_options,
    launch,
    resume_options,
    take_launch,
    take_modules,
    typed,
)
from purerl.settings.options import RESUMED, LaunchOptions, RunOptions
from purerl.settings.values import coerce


@flags_of(RunOptions, LaunchOptions)
@click.command(
    name="train",
    cls=AlgorithmCommand,
    epilog="Settings: the algorithm's defaults, then configs/ (see purerl list configs), then --config, then flags.",
)
@click.argument("algorithm", required=False)
@click.argument("environment", required=False)
@CONFIG
@job_options("run", "ALGORITHM-ENVIRONMENT")
@click.option(
    "--callback",
    "callback_names",
    multiple=True,
    metavar="MODULE:FUNCTION",
    help="Your function (update, metrics, view), called at each logged row; may be repeated.",
)
def command(
    algorithm: str | None,
    environment: str | None,
    config_file: Path | None,
    out: Path | None,
    resume_folder: Path | None,
    callback_names: tuple[str, ...],
    trust: tuple[str, ...],
    plain: bool,
    **flags: object,
) -> int:
    """Train ALGORITHM on ENVIRONMENT.

    \b
    purerl train ppo CartPole-v1
    purerl train ppo CartPole-v1 --seeds 8 --learning-rate 1e-3 --env.gravity 12
    purerl train ppo TagContinuous --num-envs auto  # as many as the memory holds
    purerl train my_module:reinforce CartPole-v1    # your own algorithm
    purerl train --config runs/ppo-CartPole-v1-1    # its settings again
    purerl train --resume runs/ppo-CartPole-v1-1
    purerl train --resume runs/ppo-CartPole-v1-1 --total-timesteps 2e6
    purerl train ppo CartPole-v1 --start runs/ppo-CartPole-v1-1  # its parameters
    """
    from purerl.settings.extensions import named
    from purerl.settings.runs import settings

    parameters, given = typed(flags)
    take_modules(trust, algorithm, environment, *callback_names)
    where = take_launch(given)
    check_out(out)
    if resume_folder is not None:
        also = (algorithm, environment, config_file, out, parameters)
        longer = given.pop("total_timesteps", None)
        options = resume_options(RunOptions, given, RESUMED, *also)
        if longer is not None:
            options["total_timesteps"] = coerce(longer, int, "total_timesteps")
        launch(where)
        from purerl.run import callbacks
        from purerl.run.opening import resume

        return resume(resume_folder, plain, list(map(callbacks.named, callback_names)), **options)
    as_many_as_fit = given.get("num_envs") == "auto" and bool(given.pop("num_envs"))
    take_modules((), *named(given))
    run = settings(algorithm, environment, given, parameters, config_file)
    launch(where)
    from purerl.run import callbacks
    from purerl.run.opening import start

    return start(run, out, plain, as_many_as_fit, list(map(callbacks.named, callback_names)))
