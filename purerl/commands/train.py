"""`purerl train`: train agents, or go on with a run that was stopped."""

from pathlib import Path
from typing import Any

import click

from purerl.commands.options import PATH, AlgorithmCommand, Place, group_settings, new_devices, place_options, typed
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
@click.option("--self-play", metavar="P", help="Against P earlier selves, in a symmetric game; makes elo.csv.")
@click.option("--rebuild-observations", metavar="BOOL", help="Keep states in rollouts; default false.")
@click.option("--tensorboard", is_flag=True, default=None, help="Also write TensorBoard events.")
@click.option("--sampler", metavar="MODE", help="auto, or on the host: serial, batched, alternating, async, inside.")
@click.option("--actors", metavar="N", help="Threads that collect, with --sampler async; default 2.")
@click.option("--deterministic", is_flag=True, default=None, help="async: act with the policy of one update before.")
@click.option("--step-time-limit", metavar="SECONDS", help="For a step of a host environment; default 60.")
@click.option("--devices", metavar="N", help="Devices it takes; default auto: one per seed, as far as there are any.")
@click.option("--mesh", metavar="SIZES", help="How they are used, such as seed=4,data=2; default: seeds first.")
@click.option("--plain", is_flag=True, help="Lines of text instead of the live display.")
@place_options
def command(
    algorithm: str | None,
    environment: str | None,
    config_file: Path | None,
    env_parameter: str | None,
    assignments: tuple[str, ...],
    out: Path | None,
    resume_folder: Path | None,
    plain: bool,
    **flags: Any,
) -> int:
    """Train ALGORITHM on ENVIRONMENT.

    \b
    purerl train ppo CartPole-v1
    purerl train ppo CartPole-v1 --seeds 8 --total-timesteps 1e6 --learning-rate 1e-3 --env.gravity 12
    purerl train ppo TagContinuous --num-envs auto       # as many as the memory holds
    purerl train --config runs/ppo-CartPole-v1-1/config.toml
    purerl train --resume runs/ppo-CartPole-v1-1
    """
    from purerl.run import config

    place = Place.take(flags)
    parameters, given = typed(flags)
    if resume_folder is not None:
        devices = new_devices(given, "devices", "mesh")
        also = [algorithm, environment, config_file, out, *parameters, *assignments, *given]
        if any(value is not None for value in also):
            raise InputError(
                "--resume goes on with a run as it is: it takes no settings, environment or --out beside it"
            )
        place.enter()
        from purerl.run import run

        return run.resume(resume_folder, plain, **devices)
    as_many_as_fit = given.get("num_envs") == "auto" and bool(given.pop("num_envs"))
    settings = config.settings(algorithm, environment, given, parameters, config_file, group_settings(assignments))
    place.enter()
    from purerl.run import run

    return run.start(settings, out, plain, as_many_as_fit)
