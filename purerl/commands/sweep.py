"""`purerl sweep`: train with many settings, or go on with a sweep that was stopped."""

from pathlib import Path
from typing import Any

import click

from purerl.commands.options import PATH, AlgorithmCommand, Place, new_devices, place_options, typed
from purerl.errors import InputError

SEARCH = (
    "method",
    "trials",
    "points",
    "chunk",
    "eta",
    "rungs",
    "slots",
    "generations",
    "checkpoint_interval",
)  # of SearchOptions
SEEDS = 8


@click.command(
    name="sweep",
    cls=AlgorithmCommand,
    epilog="What is not searched: the algorithm's defaults, then configs/, then --config, then flags, as in train.",
)
@click.argument("algorithm", required=False)
@click.argument("environment", required=False)
@click.option(
    "--over",
    multiple=True,
    metavar="NAME=WHAT",
    help="A field to search: learning_rate=1e-4:1e-2:log, num_envs=4,16, hidden_sizes=64,64/256 or env.gravity=8:12.",
)
@click.option("--trials", metavar="N", help="Trials in all, the population of pbt; default 64.")
@click.option("--seeds", metavar="N", help=f"Agents of each trial; default {SEEDS}.")
@click.option("--seed", metavar="S", help="The first seed, which also draws the trials; default 0.")
@click.option("--method", metavar="METHOD", help="random, grid, qmc (Sobol points), halving or pbt; default random.")
@click.option("--rebuild-observations", metavar="BOOL", help="Keep states in rollouts; default false.")
@click.option("--points", metavar="N", help="Points of each curve; default 50.")
@click.option("--chunk", metavar="N", help="Trials at once; default: as many as serve speed and memory.")
@click.option("--devices", metavar="N", help="Devices that share the agents; default auto: all, on a CPU one per core.")
@click.option("--eta", metavar="N", help="halving: one in so many goes on to the next rung; default 3.")
@click.option("--rungs", metavar="N", help="halving: lengths at which trials are compared; default 3.")
@click.option("--slots", metavar="N", help="halving: trials at once; default: as many as reach the last rung.")
@click.option("--generations", metavar="N", help="pbt: how often the best replace the worst; default 20.")
@click.option("--checkpoint-interval", metavar="SECONDS", help="halving, pbt: between two checkpoints; default 60.")
@click.option("--config", "config_file", type=PATH, metavar="FILE.toml", help="Settings, such as a run's config.toml.")
@click.option("--env.NAME", "env_parameter", metavar="VALUE", help="A parameter of the environment: --env.gravity 12.")
@click.option("--out", type=PATH, metavar="DIR", help="The folder; default runs/sweep-ALGORITHM-ENVIRONMENT-N.")
@click.option("--resume", "resume_folder", type=PATH, metavar="DIR", help="Go on with a sweep that was stopped.")
@click.option("--plain", is_flag=True, help="Lines of text instead of the live display.")
@place_options
def command(
    algorithm: str | None,
    environment: str | None,
    over: tuple[str, ...],
    config_file: Path | None,
    env_parameter: str | None,
    out: Path | None,
    resume_folder: Path | None,
    plain: bool,
    **flags: Any,
) -> int:
    """Train ALGORITHM on ENVIRONMENT with many settings, each with several seeds.

    \b
    purerl sweep ppo CartPole-v1 --over learning_rate=1e-4:1e-2:log --over num_envs=4,16 --trials 64
    purerl sweep ppo CartPole-v1 --over learning_rate=1e-4:1e-2:log --method halving --total-timesteps 2e5
    purerl sweep --resume runs/sweep-ppo-CartPole-v1-1
    """
    from purerl.run import config

    place = Place.take(flags)
    parameters, given = typed(flags)
    if resume_folder is not None:
        devices = new_devices(given, "devices")
        also = [algorithm, environment, config_file, out, *over, *parameters, *given]
        if any(value is not None for value in also):
            raise InputError("--resume goes on with a sweep as it is: it takes no settings or --out beside it")
        place.enter()
        from purerl.sweeps.sweep import resume

        return resume(resume_folder, plain, **devices)
    place.enter()
    from purerl.sweeps import plan as sweep_plan
    from purerl.sweeps import search
    from purerl.sweeps.sweep import start

    options = sweep_plan.search_options({name: given.pop(name) for name in SEARCH if name in given})
    run = config.settings(algorithm, environment, {"seeds": SEEDS} | given, parameters, config_file)
    wanted = dict(search.parse(text) for text in over)
    if len(wanted) < len(over):
        raise InputError("--over names a field twice")
    return start(sweep_plan.make_sweep_plan(run, options, wanted), out, plain)
