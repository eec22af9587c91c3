"""`purerl sweep`: trains with many settings, or resumes a sweep."""

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
    take_options,
    typed,
)
from purerl.errors import InputError
from purerl.settings.options import LaunchOptions, RunOptions, SearchOptions, SweptRunOptions
from purerl.settings.values import coerce


@flags_of(RunOptions, only=("extension",))
@flags_of(SweptRunOptions, SearchOptions, LaunchOptions)
@click.command(
    name="sweep",
    short_help="Train with many settings, or resume a sweep.",
    cls=AlgorithmCommand,
    epilog="Settings that are not searched come from the algorithm's defaults, then configs/, then --config, then "
    "flags, as in train.",
)
@click.argument("algorithm", required=False)
@click.argument("environment", required=False)
@click.option(
    "--over",
    multiple=True,
    metavar="NAME=VALUES",
    help="A field to search: learning_rate=1e-4:1e-2:log, num_envs=4,16, hidden_sizes=64,64/256 or env.gravity=8:12.",
)
@CONFIG
@job_options("sweep", "sweep-ALGORITHM-ENVIRONMENT")
def command(
    algorithm: str | None,
    environment: str | None,
    over: tuple[str, ...],
    config_file: Path | None,
    out: Path | None,
    resume_folder: Path | None,
    trust: tuple[str, ...],
    plain: bool,
    **flags: object,
) -> int:
    """Train ALGORITHM on ENVIRONMENT with many settings, each with several seeds.

    \b
    purerl sweep ppo CartPole-v1 --over learning_rate=1e-4:1e-2:log --trials 64
    purerl sweep ppo CartPole-v1 --over num_envs=4,16 --method grid
    purerl sweep --resume runs/sweep-ppo-CartPole-v1-1 --fresh-seeds 16
    """
    parameters, given = typed(flags)
    take_modules(trust, algorithm, environment)
    where = take_launch(given)
    check_out(out)
    if resume_folder is not None:
        also = (algorithm, environment, config_file, out, over, parameters)
        fresh = {name: coerce(given.pop(name), int, name) for name in ("fresh_seeds",) if name in given}
        devices = resume_options(SweptRunOptions, given, ("devices",), *also)
        launch(where)
        from purerl.sweeps.sweep import resume

        return resume(resume_folder, plain, **fresh, **devices)
    launch(where)
    from purerl.settings import ranges
    from purerl.settings.runs import settings
    from purerl.sweeps.plan import make_sweep_plan
    from purerl.sweeps.sweep import start

    options = take_options(SearchOptions, given)
    run = settings(algorithm, environment, {**vars(SweptRunOptions()), **given}, parameters, config_file)
    wanted = dict(ranges.parse(text) for text in over)
    if len(wanted) < len(over):
        raise InputError("--over names a field twice")
    return start(make_sweep_plan(run, options, wanted), out, plain)
