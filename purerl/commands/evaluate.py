"""`purerl evaluate`: play episodes with trained agents."""

from pathlib import Path
from typing import Any

import click

from purerl.commands.options import (
    NO_CACHE,
    PATH,
    TRUST,
    check_file,
    flags_of,
    given_values,
    launch,
    say,
    take_launch,
    take_modules,
)
from purerl.settings.options import LaunchOptions


@flags_of(LaunchOptions, only=NO_CACHE)
@click.command(name="evaluate")
@click.argument("run_dir", type=PATH)
@click.option("--episodes", type=click.IntRange(1), default=128, metavar="N", help="Episodes per seed; default 128.")
@click.option("--gif", type=PATH, metavar="FILE", help="Also record an episode of the best seed's agent.")
@TRUST
def command(run_dir: Path, episodes: int, gif: Path | None, trust: tuple[str, ...], **flags: Any) -> None:
    """Play episodes with the agents of a run's newest checkpoint, without exploration."""
    check_file(gif, ".gif")
    take_modules(trust)
    launch(take_launch(given_values(flags)))
    import numpy as np

    from purerl.reporting import summary
    from purerl.run import trained_run

    run = trained_run.load_run(run_dir)
    played = trained_run.play(run, episodes)
    say(f"{run.settings.algorithm} on {run.settings.environment}, update {int(run.state.num_updates):,}")
    say(f"{'seed':>6} {'return':>10} {'std':>9} {'min':>9} {'max':>9} {'length':>8}")
    for i, returns in enumerate(played.episode_return):
        seed, length = run.settings.options.seed + i, played.episode_length[i].mean()
        numbers = f"{returns.mean():10.5g} {returns.std():9.4g} {returns.min():9.5g} {returns.max():9.5g} {length:8.5g}"
        say(f"{seed:6} {numbers}{'  failed in training' if run.failed[i] else ''}")
    for name, returns in played.group_return.items():
        say(f"{name}, per agent: {', '.join(f'{mean:.5g}' for mean in returns.mean(axis=1))}")
    if len(played.episode_return) > 1:
        means = np.where(run.failed, np.nan, played.episode_return.mean(axis=1))
        over = summary.over_seeds(means.tolist(), float(played.episode_return.min()))
        low, high = over["iqm_interval_95"] or (float("nan"), float("nan"))
        numbers = "every seed failed in training"
        if over["mean"] is not None:
            numbers = f"mean {over['mean']:.5g}, IQM {over['iqm']:.5g} (95% interval {low:.5g} .. {high:.5g})"
            numbers += summary.failures(over)
        say(f"over seeds: {numbers}")
    if not played.finished.all():
        say(f"{(~played.finished).sum()} of {played.finished.size} episodes did not end and were cut off")
    if gif is not None:
        trained_run.save_gif(run, played, gif)
        say(gif)
