"""Recordings of a run's agents: videos of their episodes, and pages with a suite's own viewer."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from purerl.errors import InputError
from purerl.host_environment import HostSource
from purerl.reporting import render, video
from purerl.reporting.files import write_named
from purerl.run.plan import Plan
from purerl.run.trained_run import TrainedRun
from purerl.types import Environment


def film(
    run: TrainedRun,
    path: Path,
    *,
    rows: int = 1,
    columns: int = 1,
    plan: Plan | None = None,
    seed: int | None = None,
    best: int = 0,
) -> None:
    """Record episodes, captioned with step, action and return, and save them.

    Args:
      run: whose agents play.
      path: ending in .gif, .mp4 or .webm.
      rows, columns: a grid of episodes; the agents take turns in it. A single episode is the `best` agent's.
      plan: the plan of the environment, from `trained_run.plan_in`; None: the run's.
      seed: the seed of the starts; None: the run's first.
      best: an agent's index.
    """
    env = (plan or run.plan).stage
    count = rows * columns
    known = np.flatnonzero(~run.failed) if not run.failed.all() else np.arange(len(run.failed))
    agents = [best] if count == 1 else [int(known[i % len(known)]) for i in range(count)]
    episodes = recorded(run, env, agents, run.settings.options.seed if seed is None else seed)
    films = [video.captioned(render.frames(env, episode), episode) for episode in episodes]
    video.save(video.grid(films, rows, columns) if count > 1 else films[0], path)


def recorded(run: TrainedRun, env: Environment, agents: Sequence[int], seed: int) -> list[render.Episode]:
    """Return an episode for each agent of these indices."""
    video.drawable(env, run.settings.environment)
    play_one = render.player(env, partial(render.agent_policy, run.trainer.algorithm))
    keys = [jax.random.fold_in(jax.random.key(seed), i) if i else jax.random.key(seed) for i in range(len(agents))]
    return [play_one(run.agent(index), key) for index, key in zip(agents, keys, strict=True)]


def viewable(env: Environment | HostSource, name: str) -> None:
    """Raise an `InputError` if an environment has no viewer page."""
    if not hasattr(env, "render_page"):
        raise InputError(f"{name} has no viewer of its own: --html is for brax; --video records a picture")


def save_html(run: TrainedRun, path: Path, *, plan: Plan | None = None, seed: int | None = None, best: int = 0) -> None:
    """Save an episode as a page with the viewer of the environment's suite; arguments as for `film`."""
    env: Any = (plan or run.plan).env
    viewable(env, run.settings.environment)
    play_one = render.player(env, partial(render.agent_policy, run.trainer.algorithm))
    key = jax.random.key(run.settings.options.seed if seed is None else seed)
    write_named(path, env.render_page(render.each(play_one(run.agent(best), key))))
