"""`purerl evolve`: evolve an objective by complete training runs or by meta-gradients, or resume an evolution."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from purerl.catalog.objectives import OBJECTIVES
from purerl.commands.algorithm_command import AlgorithmCommand
from purerl.commands.flags import flags_of
from purerl.commands.options import (
    check_out,
    job_options,
    launch,
    names_of,
    resume_options,
    take_launch,
    take_modules,
    typed,
)
from purerl.errors import InputError
from purerl.registry import objective as find_objective
from purerl.settings.options import EvolveOptions, LaunchOptions

if TYPE_CHECKING:
    from purerl.loop.extension import Extension


class EvolveCommand(AlgorithmCommand):
    """`evolve`, with flags for the fields of the config of the objective's algorithm."""

    parameter_help = "A parameter; LOW:HIGH is sampled for each training run."

    def find_algorithm(self, args: list[str]) -> str | None:
        """Return the algorithm that uses the objective."""
        return find_objective(args[0]).algorithm if args and not args[0].startswith("-") else None

    def find_extensions(self, args: list[str]) -> tuple["Extension", ...]:
        """Return no extensions: an evolution uses the loop itself."""
        return ()

    def alternatives(self) -> str:
        """Return the last paragraph of the help page if no objective is named."""
        names = ", ".join(OBJECTIVES)
        return (
            f"OBJECTIVE is one of {names}; or module:function, (key) -> objective of PPO. "
            "purerl evolve OBJECTIVE --help lists the settings of the training runs."
        )


@flags_of(EvolveOptions, LaunchOptions)
@click.command(
    name="evolve",
    cls=EvolveCommand,
    epilog="Settings of the tasks: the algorithm's defaults, then configs/, then flags. total_timesteps is the length "
    "of each training run; default 16384.",
)
@click.argument("objective", required=False)
@click.option("--tasks", metavar="A,B,...", help="Environments to train on; default CartPole-v1.")
@job_options("evolution", "evolve-OBJECTIVE")
def command(
    objective: str | None,
    tasks: str | None,
    out: Path | None,
    resume_folder: Path | None,
    trust: tuple[str, ...],
    plain: bool,
    **flags: object,
) -> int:
    """Evolve OBJECTIVE. A candidate's fitness is the return of complete training runs that use it.

    With --method meta-gradient there is one candidate, whose gradient passes through K updates of agents of all ages.

    \b
    purerl evolve lpo --tasks CartPole-v1,Acrobot-v1 --generations 200
    purerl evolve lpo-zero --tasks CartPole-v1 --env.gravity 5:15
    purerl evolve lpg --method meta-gradient --tasks Catch --population 8
    purerl evolve --resume runs/evolve-lpo-1
    """
    parameters, given = typed(flags)
    take_modules(trust, objective, *names_of(tasks))
    where = take_launch(given)
    check_out(out)
    if resume_folder is not None:
        devices = resume_options(EvolveOptions, given, ("devices",), *(objective, tasks, out, parameters))
        launch(where)
        from purerl.evolution.evolve import resume

        return resume(resume_folder, plain, **devices)
    if objective is None:
        raise InputError("no objective given: purerl evolve OBJECTIVE, such as: purerl evolve lpo --tasks CartPole-v1")
    launch(where)
    from purerl.evolution.evolve import start
    from purerl.evolution.plan import make_plan, sort_options

    options, settings = sort_options(given)
    return start(make_plan(objective, names_of(tasks or "CartPole-v1"), options, settings, parameters), out, plain)
