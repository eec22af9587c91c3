"""`purerl evaluate`: play episodes with trained agents."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from purerl.commands.algorithm_command import EnvironmentCommand
from purerl.commands.flags import flags_of
from purerl.commands.options import (
    CHECKPOINT,
    NO_CACHE,
    PATH,
    PICTURES,
    SIMULATIONS,
    TRUST,
    check_file,
    given_values,
    launch,
    say,
    take_launch,
    take_modules,
    typed,
)
from purerl.errors import InputError
from purerl.settings.options import LaunchOptions

if TYPE_CHECKING:
    from purerl.run.plan import Plan
    from purerl.run.trained_run import TrainedRun

MOST = 64  # episodes of a grid


@flags_of(LaunchOptions, only=NO_CACHE)
@click.command(name="evaluate", short_help="Play episodes with trained agents.", cls=EnvironmentCommand)
@click.argument("run_dir", type=PATH)
@click.option("--episodes", type=click.IntRange(1), default=128, metavar="N", help="Episodes per seed; default 128.")
@CHECKPOINT
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), metavar="S", help="Random seed of the episodes; default the run's own."
)
@SIMULATIONS
@click.option("--video", type=PATH, metavar="FILE", help="Also record an episode as .mp4, .webm or .gif.")
@click.option("--gif", type=PATH, metavar="FILE", help="Also record an episode as .gif.")
@click.option("--grid", metavar="ROWSxCOLUMNS", help="Record a grid of episodes, such as 3x3.")
@click.option("--html", type=PATH, metavar="FILE", help="Record an episode of brax as a page with brax's own viewer.")
@click.option(
    "--levels", metavar="NAMES", help="Play these levels: held-out for all held-out levels, or comma-separated names."
)
@click.option(
    "--against",
    metavar="PLAYER",
    help="In a turn-based game: play --episodes games from either seat, against a run's folder, an agent's file, "
    "zoo/NAME, random, lookahead or perfect.",
)
@click.option("--picture", type=PATH, metavar="FILE", help="With --levels: draw each level with the agent's path.")
@TRUST
def command(
    run_dir: Path,
    episodes: int,
    checkpoint: str,
    seed: int | None,
    simulations: int | None,
    video: Path | None,
    gif: Path | None,
    grid: str | None,
    html: Path | None,
    levels: str | None,
    against: str | None,
    picture: Path | None,
    trust: tuple[str, ...],
    **flags: object,
) -> None:
    """Evaluate the agents of a run without exploration, optionally in another environment than in training.

    RUN_DIR may also be the file of an agent, or zoo/NAME: see purerl list agents.

    \b
    purerl evaluate runs/ppo-CartPole-v1-1
    purerl evaluate runs/ppo-CartPole-v1-1 --env.gravity 12 --video cartpole.mp4
    purerl evaluate runs/ppo-Maze-1 --levels held-out --picture levels.png
    purerl evaluate runs/alphazero-pgx-connect_four-1 --against lookahead
    """
    parameters, given = typed(flags)
    shape = _grid(grid)
    _check_words(grid, levels, against, picture=picture, films=(video, gif), html=html)
    check_file(picture, *PICTURES)
    check_file(gif, ".gif")
    check_file(html, ".html")
    take_modules(trust, against)
    launch(take_launch(given_values(given)))
    from purerl.reporting import video as videos
    from purerl.run import trained_run

    films = [path for path in (video, gif) if path is not None]
    for path in films:
        videos.check(path)
    run = trained_run.load_run(run_dir, checkpoint=checkpoint)
    if simulations is not None:
        run = run.searching(simulations)
    plan = trained_run.plan_in(run, None, parameters)
    if levels is not None:
        _evaluate_levels(run, plan, levels, episodes, seed=seed, picture=picture)
    elif against is not None:
        _evaluate_against(run, plan, against, episodes, seed)
    else:
        _evaluate(run, plan, episodes, seed=seed, parameters=parameters, films=films, grid=shape, html=html)


def _check_words(
    grid: str | None,
    levels: str | None,
    against: str | None,
    *,
    picture: Path | None,
    films: tuple[Path | None, Path | None],
    html: Path | None,
) -> None:
    """Reject options that cannot be combined."""
    if grid is not None and films == (None, None):
        raise InputError("--grid only works with a recording: add --video FILE or --gif FILE")
    if picture is not None and levels is None:
        raise InputError("--picture only works with levels: add --levels held-out")
    recorded = (grid, *films, html) != (None, None, None, None)
    if levels is not None and recorded:
        raise InputError("--levels cannot be combined with recordings; --picture draws the levels")
    if against is not None and (levels is not None or recorded):
        raise InputError("--against only counts wins: it cannot be combined with --levels, --video, --gif or --html")


def _evaluate(
    run: "TrainedRun",
    plan: "Plan",
    episodes: int,
    *,
    seed: int | None,
    parameters: Mapping[str, object],
    films: Sequence[Path],
    grid: tuple[int, int],
    html: Path | None,
) -> None:
    """Play in the environment, show the results, and record the best agent."""
    import numpy as np

    from purerl.reporting import video as videos
    from purerl.run import recording, trained_run

    if films:
        videos.drawable(plan.env, run.settings.environment)
    if html is not None:
        recording.viewable(plan.env, run.settings.environment)
    played = trained_run.play(run, episodes, None, seed, parameters)
    say("\n".join(trained_run.table(run, played)))
    best = int(np.argmax(np.where(run.failed, -np.inf, played.episode_return.mean(axis=1))))
    rows, columns = grid
    for path in films:
        recording.film(run, path, rows=rows, columns=columns, plan=plan, seed=seed, best=best)
        say(path)
    if html is not None:
        recording.save_html(run, html, plan=plan, seed=seed, best=best)
        say(html)


def _evaluate_levels(
    run: "TrainedRun", plan: "Plan", names: str, episodes: int, seed: int | None, picture: Path | None
) -> None:
    """Play the named levels, and show the results."""
    from purerl.extensions.levels import held_out
    from purerl.reporting import video as videos

    levels = held_out.chosen_levels(plan.env, names, run.settings.environment)
    if picture is not None:
        videos.drawable(plan.env, run.settings.environment)
    results = held_out.play_levels(run, plan, levels, episodes, seed)
    say("\n".join(held_out.table(run, results)))
    if picture is not None:
        held_out.draw_levels(run, plan, levels, results, picture, seed=seed)
        say(picture)


def _evaluate_against(run: "TrainedRun", plan: "Plan", against: str, games: int, seed: int | None) -> None:
    """Play games against a player, and show who won."""
    from purerl.extensions.self_play import match

    say("\n".join(match.table(run, match.compare(run, plan, against, games, seed))))


def _grid(text: str | None) -> tuple[int, int]:
    """Return (rows, columns) of `3x4`."""
    if text is None:
        return 1, 1
    rows, x, columns = text.lower().partition("x")
    if not (x and rows.isdecimal() and columns.isdecimal() and 0 < int(rows) * int(columns) <= MOST):
        raise InputError(f"--grid {text}: write ROWSxCOLUMNS, such as 3x3, of at most {MOST} episodes")
    return int(rows), int(columns)
