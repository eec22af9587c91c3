"""`purerl train`: train agents, or go on with a run that was stopped."""

from pathlib import Path
from typing import Any

import click

from purerl.commands.options import PATH, AlgorithmCommand, group_settings, typed
from purerl.errors import InputError


@click.command(
    name="train",
    cls=AlgorithmCommand,
    epilog="Settings: the algorithm's defaults, then configs/ (see purerl list configs), then --config, then flags.",
)
@click.argument("algorithm", required=False)
@click.argument("environment", required=False)
@click.option("--seeds", metavar="N", help="Agents trained side by side in one program; default 1.")
@click.option("--seed", metavar="S", help="The first seed; default 0.")
@click.option("--config", "config_file", type=PATH, metavar="FILE.toml", help="Settings, such as a run's config.toml.")
@click.option("--env.NAME", "env_parameter", metavar="VALUE", help="A parameter of the environment: --env.gravity 12.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="GROUP.NAME=VALUE",
    help="Of a group of agents: a setting of its own, algorithm, policy=GROUP, frozen=true|random|RUN, or start=RUN.",
)
@click.option("--out", type=PATH, metavar="DIR", help="The run's folder; default runs/ALGORITHM-ENVIRONMENT-N.")
@click.option("--resume", "resume_folder", type=PATH, metavar="DIR", help="Go on with a run that was stopped.")
@click.option("--log-interval", metavar="N", help="Updates between two rows of metrics.csv; default: about 150 rows.")
@click.option("--evaluations", metavar="N", help="Evaluations during the run; default 10.")
@click.option("--eval-episodes", metavar="N", help="Episodes per seed of the final evaluation; default 128.")
@click.option("--checkpoint-interval", metavar="SECONDS", help="Time between two checkpoints; default 60.")
@click.option("--keep-checkpoints", metavar="K", help="How many are kept; default 3.")
@click.option("--tensorboard", is_flag=True, default=None, help="Also write TensorBoard events.")
@click.option("--sampler", metavar="MODE", help="auto, or on the host: serial, batched, alternating, async.")
@click.option("--actors", metavar="N", help="Threads that collect, with --sampler async; default 2.")
@click.option("--deterministic", is_flag=True, default=None, help="async: act with the policy of one update before.")
@click.option("--step-time-limit", metavar="SECONDS", help="For a step of a host environment; default 60.")
@click.option("--devices", metavar="N", help="Devices it takes; default auto: one per seed, as far as there are any.")
@click.option("--mesh", metavar="SIZES", help="How they are used, such as seed=4,data=2; default: seeds first.")
@click.option("--distributed", "together", is_flag=True, help="Join other processes: by the next three, or SLURM.")
@click.option("--coordinator", metavar="HOST:PORT", help="Where the first process listens.")
@click.option("--num-processes", type=int, metavar="N", help="How many processes there are.")
@click.option("--process-index", type=int, metavar="I", help="Which one this is, from 0.")
@click.option("--plain", is_flag=True, help="Lines of text instead of the live display.")
@click.option("--no-cache", is_flag=True, help="Do not use the cache of compiled programs.")
def command(
    algorithm: str | None,
    environment: str | None,
    config_file: Path | None,
    env_parameter: str | None,
    assignments: tuple[str, ...],
    out: Path | None,
    resume_folder: Path | None,
    together: bool,
    coordinator: str | None,
    num_processes: int | None,
    process_index: int | None,
    plain: bool,
    no_cache: bool,
    **flags: Any,
) -> int:
    """Train ALGORITHM on ENVIRONMENT.

    \b
    purerl train ppo CartPole-v1
    purerl train ppo CartPole-v1 --seeds 8 --total-timesteps 1e6 --learning-rate 1e-3 --env.gravity 12
    purerl train --config runs/ppo-CartPole-v1-1/config.toml
    purerl train --resume runs/ppo-CartPole-v1-1
    """
    from purerl import config

    parameters, given = typed(flags)
    place = (coordinator, num_processes, process_index)
    if not together and any(value is not None for value in place):
        raise InputError("--coordinator, --num-processes and --process-index need --distributed")
    if resume_folder is not None:
        devices = {name: config.option_value(name, given.pop(name)) for name in ("devices", "mesh") if name in given}
        also = [algorithm, environment, config_file, out, *parameters, *assignments, *given]
        if any(value is not None for value in also):
            raise InputError(
                "--resume goes on with a run as it is: it takes no settings, environment or --out beside it"
            )
        _prepare(not no_cache, place if together else None)
        from purerl import run

        return run.resume(resume_folder, plain, **devices)
    settings = config.settings(algorithm, environment, given, parameters, config_file, group_settings(assignments))
    _prepare(not no_cache, place if together else None)
    from purerl import run

    return run.start(settings, out, plain)


def _prepare(cached: bool, place: tuple[str | None, int | None, int | None] | None) -> None:
    """Set up the compilation cache, and join the other processes if there are any."""
    from purerl import cache, distributed

    if cached:
        cache.enable()
    if place is not None:
        distributed.initialize(*place)
