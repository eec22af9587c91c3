"""`purerl meta-evaluate`: compare evolved objectives with their start, PPO, DPO and a tuned PPO."""

from pathlib import Path

import click

from purerl.commands.flags import flags_of
from purerl.commands.options import (
    NO_CACHE,
    RUN_DIRS,
    TRUST,
    given_values,
    launch,
    names_of,
    say,
    take_launch,
    take_modules,
    take_options,
    tell,
)
from purerl.settings.options import LaunchOptions, MetaOptions


@flags_of(LaunchOptions, only=NO_CACHE)
@flags_of(MetaOptions)
@click.command(
    name="meta-evaluate",
    short_help="Compare evolved objectives with PPO.",
)
@RUN_DIRS
@click.option(
    "--tasks", default="", metavar="A,B,...", help="Held-out environments, in addition to those of the evolution."
)
@TRUST
def command(run_dirs: tuple[Path, ...], tasks: str, trust: tuple[str, ...], **flags: object) -> None:
    """Train agents with evolved objectives and with their rivals, on the evolution's tasks and on others.

    The rival of an update rule is its start; those of a part of PPO are also PPO, DPO and a tuned PPO.

    Several RUN_DIRs that differ in --seed are meta-seeds: their objectives are pooled.

    \b
    purerl meta-evaluate runs/evolve-lpo-1 --tasks Acrobot-v1,Catch --seeds 32
    """
    held_out = names_of(tasks)
    take_modules(trust, *held_out)
    given = given_values(flags)
    launch(take_launch(given))
    options = take_options(MetaOptions, given)
    from purerl.evolution import meta_evaluate
    from purerl.evolution.evolve import load

    runs = [load(folder) for folder in run_dirs]
    tell(f"compiling, then training {options.seeds} agents per task and method ...")
    found = meta_evaluate.meta_evaluate(runs, held_out, **vars(options))
    say(found.text())
    say(meta_evaluate.save(found, run_dirs[0]))
