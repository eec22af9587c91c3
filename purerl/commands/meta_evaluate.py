"""`purerl meta-evaluate`: compare what was evolved with PPO, DPO and a tuned PPO."""

from pathlib import Path

import click

from purerl.commands.options import PATH


@click.command(name="meta-evaluate")
@click.argument("run_dirs", type=PATH, nargs=-1, required=True, metavar="RUN_DIR...")
@click.option("--tasks", default="", metavar="A,B,...", help="Held-out environments, beside those it was evolved on.")
@click.option(
    "--seeds", type=click.IntRange(2), default=32, metavar="N", help="Agents per task and method; default 32."
)
@click.option(
    "--tuning",
    type=click.FloatRange(0),
    default=1.0,
    metavar="X",
    help="Trainings that tune PPO, as a share of the evolution's; 0 leaves it out; default 1.",
)
@click.option("--compare", "kind", type=click.Choice(["final", "auc"]), default="final", help="What; default final.")
@click.option("--no-cache", is_flag=True, help="Do not use the cache of compiled programs.")
def command(run_dirs: tuple[Path, ...], tasks: str, seeds: int, tuning: float, kind: str, no_cache: bool) -> None:
    """Train agents with what evolutions found and with its rivals, on their tasks and on others.

    Several RUN_DIRs that differ in --seed are meta-seeds: their objectives are pooled.

    \b
    purerl meta-evaluate runs/evolve-lpo-1 --tasks Acrobot-v1,Catch --seeds 32
    """
    from purerl.run import cache

    if not no_cache:
        cache.enable()
    from purerl.evolution import meta_evaluate
    from purerl.evolution.evolve import load

    runs = [load(folder) for folder in run_dirs]
    held_out = [name.strip() for name in tasks.split(",") if name.strip()]
    found = meta_evaluate.meta_evaluate(runs, held_out, seeds, tuning, kind)
    click.echo(found.text())
    click.echo(meta_evaluate.save(found, run_dirs[0]))
