"""Held-out levels: the returns of a run's agents on each level, as a table and as a picture."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError, unknown
from purerl.extensions.levels import level_picture
from purerl.extensions.levels.space import Level, held_out, on_level
from purerl.host_environment import HostSource
from purerl.loop.evaluate import MAX_STEPS, Evaluation, play_episodes
from purerl.reporting import render
from purerl.run.plan import Plan
from purerl.run.trained_run import TrainedRun
from purerl.types import Array, Environment, Key, PyTree
from purerl.xla import backend

ALL = "held-out"  # stands for the names of all levels


class LevelResults(NamedTuple):
    """The episodes on several levels."""

    names: tuple[str, ...]  # names of the L levels
    episode_return: np.ndarray  # f32[seeds, L, episodes]
    episode_length: np.ndarray  # i32[seeds, L, episodes]

    @property
    def solved(self) -> np.ndarray:
        """f64[seeds, L], the fraction of the episodes whose return is above 0."""
        return (self.episode_return > 0).mean(axis=2)


def chosen_levels(env: Environment, text: str, name: str) -> dict[str, Level]:
    """Return the levels of an environment that a text names: `held-out`, or comma-separated names.

    Args:
      env: one environment.
      text: the names.
      name: the name of the environment, for messages.

    Raises:
      InputError: if it has no held-out levels, or none of such a name.
    """
    known = {} if isinstance(env, HostSource) else held_out(env)
    if not known:
        raise InputError(
            f"{name} has no held-out levels; --levels needs an environment that defines some, such as Maze"
        )
    if text == ALL:
        return known
    names = [part.strip() for part in text.split(",") if part.strip()]
    for wanted in names:
        if wanted not in known:
            raise unknown(f"level of {name}", wanted, [ALL, *known])
    if not names:
        raise InputError(f"--levels names no level of {name}; allowed: {', '.join([ALL, *known])}")
    return {wanted: known[wanted] for wanted in names}


def play_levels(
    run: TrainedRun, plan: Plan, levels: dict[str, Level], episodes: int, seed: int | None = None
) -> LevelResults:
    """Play episodes with every seed's agent on each level. Agents sample from their policies, as in training.

    Args:
      run: the trained agents.
      plan: the plan of the environment, from `trained_run.plan_in`.
      levels: {name: level}.
      episodes: on each level.
      seed: the seed of the random numbers; None: the run's first.
    """
    algorithm, env = run.trainer.algorithm, plan.env
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *levels.values())
    key = jax.random.key(run.settings.options.seed if seed is None else seed)

    @backend.jit
    def play(agents: PyTree) -> Any:
        def one(agent: PyTree, level: Level, key: Key) -> Evaluation:
            return play_episodes(
                algorithm, on_level(env, level), agent, key, num_episodes=episodes, max_steps=MAX_STEPS, explore=True
            )

        on_all = jax.vmap(one, in_axes=(None, 0, 0))
        return jax.vmap(on_all, in_axes=(0, None, None))(agents, stacked, jax.random.split(key, len(levels)))

    played = jax.device_get(play(run.state.agent))
    return LevelResults(names=tuple(levels), episode_return=played.episode_return, episode_length=played.episode_length)


def table(run: TrainedRun, results: LevelResults) -> list[str]:
    """Return the results as lines: a row per level, with means over the seeds that did not fail, then over levels."""
    lines = [f"{run.settings.algorithm} on {run.settings.environment}, update {int(run.state.num_updates):,}"]
    width = max(map(len, (*results.names, "level")))
    lines.append(f"{'level':{width}} {'solved':>8} {'return':>9} {'length':>8}")
    kept = ~run.failed if not run.failed.all() else np.ones_like(run.failed)
    solved, episodes = results.solved[kept], results.episode_return.shape[2]
    returns, lengths = results.episode_return[kept].mean(axis=(0, 2)), results.episode_length[kept].mean(axis=(0, 2))
    for name, *numbers in zip(results.names, solved.mean(axis=0), returns, lengths, strict=True):
        lines.append(f"{name:{width}} {numbers[0]:8.1%} {numbers[1]:9.4g} {numbers[2]:8.4g}")
    lines.append(f"{'all':{width}} {solved.mean():8.1%} {returns.mean():9.4g} {lengths.mean():8.4g}")
    if len(solved) > 1:
        each = ", ".join(f"{share:.1%}" for share in solved.mean(axis=1))
        spread = solved.mean(axis=1).std(ddof=1) / math.sqrt(len(solved))
        lines.append(f"over {len(solved)} seeds: solved {each}; standard error {spread:.1%}")
    lines.append(f"{episodes} episodes per level and seed; solved: a return above 0; actions are drawn as in training")
    return lines


def draw_levels(
    run: TrainedRun,
    plan: Plan,
    levels: dict[str, Level],
    results: LevelResults,
    path: Path,
    seed: int | None = None,
) -> None:
    """Draw each level with the path of the best seed's agent in one episode, and the results of all seeds.

    Args:
      run, plan, levels, seed: as for `play_levels`.
      results: what the agent reached on it.
      path: the path of the picture.

    Raises:
      InputError: if the environment has no picture, or the file cannot be written.
    """
    algorithm = run.trainer.algorithm
    kept = np.where(run.failed, -np.inf, results.solved.mean(axis=1))
    agent = run.agent(int(np.argmax(kept)))
    key = jax.random.key(run.settings.options.seed if seed is None else seed)
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *levels.values())
    panels, shares = [], results.solved[~run.failed if not run.failed.all() else slice(None)].mean(axis=0)

    @backend.jit
    def play(level: Level, key: Key) -> Any:
        return _episode(algorithm, on_level(plan.env, level), agent, key)

    for i, name in enumerate(results.names):
        level = jax.tree.map(lambda x, i=i: np.asarray(x[i]), stacked)
        states, over = jax.tree.map(np.asarray, play(level, jax.random.fold_in(key, i)))
        length = int((~over).sum())
        env = on_level(plan.env, level)
        frames = env.render_episode([jax.tree.map(lambda x, t=t: x[t], states) for t in range(length)])
        panels.append(level_picture.Panel(picture=level_picture.trail(frames), title=name, share=float(shares[i])))
    level_picture.save(panels, path)


def _episode(algorithm: Any, env: Environment, agent: PyTree, key: Key, max_steps: int = 1000) -> tuple[PyTree, Array]:
    """Return (states [max_steps + 1, ...], whether the episode was over before each) of one episode."""
    policy = render.agent_policy(algorithm, agent, explore=True)
    keys = jax.random.split(key, max_steps + 1)
    first, observation = env.reset(keys[0])

    def step(carry: tuple, key: Key) -> tuple[tuple, tuple]:
        state, observation, memory, over = carry
        key_act, key_step = jax.random.split(key)
        action, memory = policy.act(memory, key_act, observation)
        state, timestep = env.step(key_step, state, action)
        return (state, timestep.observation, memory, over | timestep.done), (state, over)

    start = (first, observation, policy.carry, jnp.zeros((), jnp.bool_))
    _, (states, over) = jax.lax.scan(step, start, keys[1:])
    states = jax.tree.map(lambda x, xs: jnp.concatenate([x[None], xs]), first, states)
    return states, jnp.concatenate([jnp.zeros(1, jnp.bool_), over])
