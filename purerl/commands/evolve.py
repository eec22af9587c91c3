"""`purerl evolve`: evolve an objective by whole trainings, or go on with an evolution that was stopped."""

from pathlib import Path
from typing import Any

import click

from purerl.commands.options import PATH, AlgorithmCommand, Place, new_devices, place_options, typed
from purerl.errors import InputError
from purerl.registry import OBJECTIVES
from purerl.registry import objective as find_objective


class EvolveCommand(AlgorithmCommand):
    """`evolve`, whose options are its own and the fields of the config of the algorithm that the objective is of."""

    def find_algorithm(self, args: list[str]) -> str | None:
        """Return the algorithm that the objective is a part of."""
        return find_objective(args[0]).algorithm if args and not args[0].startswith("-") else None

    def alternatives(self) -> str:
        """Return what the help page says where no objective is named."""
        names = ", ".join(OBJECTIVES)
        return (
            f"OBJECTIVE is one of {names}; or module:function, (key) -> objective of PPO. "
            "purerl evolve OBJECTIVE --help lists the settings of the trainings."
        )


@click.command(
    name="evolve",
    cls=EvolveCommand,
    epilog="The tasks' settings: the algorithm's defaults, then configs/, then flags. total_timesteps is the length of "
    "each training, 16384 unless given.",
)
@click.argument("objective", required=False)
@click.option("--tasks", metavar="A,B,...", help="Environments to train on; default CartPole-v1.")
@click.option("--population", metavar="N", help="Candidates per generation; default 64.")
@click.option("--generations", metavar="N", help="How many; default 100.")
@click.option("--seeds", metavar="N", help="Trainings per candidate and task; default 1.")
@click.option("--seed", metavar="S", help="Of the evolution; default 0.")
@click.option("--strategy", metavar="NAME", help="openes, snes, or evosax:NAME such as evosax:CMA_ES; default openes.")
@click.option("--sigma", metavar="X", help="Standard deviation of the first candidates; default 0.04.")
@click.option("--sigma-decay", metavar="X", help="Its factor per generation (openes); default 0.999.")
@click.option("--meta-learning-rate", metavar="X", help="Of openes, whose optimizer is Adam; default 0.01.")
@click.option("--antithetic", metavar="BOOL", help="Draw candidates in pairs; default true.")
@click.option("--fitness", metavar="NAME", help="auc, final or wins: how well a training went; default auc.")
@click.option("--shaping", metavar="NAME", help="zscore or rank: how a task's fitness is normalized; default zscore.")
@click.option("--fresh", is_flag=True, default=None, help="Random numbers of its own for each candidate.")
@click.option("--minutes", metavar="X", help="Stop after so many minutes; default: after all generations.")
@click.option("--chunk", metavar="N", help="Trainings side by side on a device; default: as many as serve.")
@click.option(
    "--devices", metavar="N", help="Devices that share the trainings; default auto: all, on a CPU one per core."
)
@click.option("--checkpoint-generations", metavar="K", help="Generations between two checkpoints; default 10.")
@click.option("--keep-checkpoints", metavar="K", help="How many are kept; default 3.")
@click.option("--frames", metavar="N", help="Generations whose center is kept for the animation; default 40.")
@click.option("--env.NAME", "env_parameter", metavar="VALUE", help="A parameter; LOW:HIGH is drawn for each training.")
@click.option("--out", type=PATH, metavar="DIR", help="The folder; default runs/evolve-OBJECTIVE-N.")
@click.option("--resume", "resume_folder", type=PATH, metavar="DIR", help="Go on with an evolution that was stopped.")
@click.option("--plain", is_flag=True, help="Lines of text instead of the live display.")
@place_options
def command(
    objective: str | None,
    tasks: str | None,
    env_parameter: str | None,
    out: Path | None,
    resume_folder: Path | None,
    plain: bool,
    **flags: Any,
) -> int:
    """Evolve OBJECTIVE: how fit a candidate is, whole trainings with it say.

    \b
    purerl evolve lpo --tasks CartPole-v1,Acrobot-v1 --population 64 --generations 200
    purerl evolve lpo-zero --tasks CartPole-v1 --total-timesteps 16384 --env.gravity 5:15
    purerl evolve --resume runs/evolve-lpo-1
    """
    place = Place.take(flags)
    parameters, given = typed(flags)
    if resume_folder is not None:
        devices = new_devices(given, "devices")
        if any(value is not None for value in (objective, tasks, out, *parameters, *given)):
            raise InputError("--resume goes on with an evolution as it is: it takes no settings or --out beside it")
        place.enter()
        from purerl.evolution.evolve import resume

        return resume(resume_folder, plain, **devices)
    if objective is None:
        raise InputError("no objective given: purerl evolve OBJECTIVE, such as: purerl evolve lpo --tasks CartPole-v1")
    place.enter()
    from purerl.evolution import plan as evolve_plan
    from purerl.evolution.evolve import start

    names = [name.strip() for name in (tasks or "CartPole-v1").split(",") if name.strip()]
    options, settings = evolve_plan.sort_options(given)
    plan = evolve_plan.make_plan(objective, names, options, settings, parameters)
    return start(plan, out, plain)
