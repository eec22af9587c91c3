"""The trained agents of a run's folder: loads, plays and records them."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl import registry
from purerl.errors import InputError
from purerl.loop.evaluate import Evaluation
from purerl.loop.train import Trainer, TrainState
from purerl.reporting import render
from purerl.run.plan import Handed, Plan, make_environment, saved_run
from purerl.run.program import EVALUATION_BATCH, Wanted
from purerl.settings.runs import Settings
from purerl.settings.trust import trusting
from purerl.types import PyTree


class TrainedRun(NamedTuple):
    """What a run's newest checkpoint holds."""

    settings: Settings
    trainer: Trainer
    state: TrainState  # leading axis: seeds, but for `num_updates`
    failed: np.ndarray  # bool[seeds], whether a seed's metrics stopped being finite
    plan: Plan

    def agent(self, index: int = 0) -> PyTree:
        """Return the agent of one seed, for `evaluate(trainer, agent, key)`."""
        if not -len(self.failed) <= index < len(self.failed):
            raise InputError(f"there is no agent {index}: the run has {len(self.failed)} seeds, counted from 0")
        return jax.tree.map(lambda x: x[index], self.state.agent)


def load_run(
    folder: str | Path, trust: bool = False, *, algorithm: Any = None, environment: Any = None, config: Any = None
) -> TrainedRun:
    """Return the agents of a run, as its newest checkpoint has them.

    Args:
      folder: the run's, such as runs/ppo-CartPole-v1-1.
      trust: import the modules that it names, where its algorithm or environment is a module:name.
      algorithm, environment, config: what the run was made of in Python, where no file can hold it.

    Raises:
      InputError: if there is no run or no checkpoint, it is damaged, it names a module that is not trusted, or it needs
        objects that are not handed.
    """
    if not isinstance(folder, str | Path):
        raise InputError(f"load_run takes the folder of a run; this is {folder!r}")
    with trusting(trust):
        handed = Handed(algorithm=algorithm, environment=environment, config=config)
        plan, progress = saved_run(Path(folder), handed)
    failed = np.asarray(progress.failed_at) > 0
    return TrainedRun(settings=plan.settings, trainer=plan.trainer, state=progress.state, failed=failed, plan=plan)


def play(run: TrainedRun, episodes: int) -> Evaluation:
    """Play greedy episodes with every seed's agent: `Evaluation` with axes [seeds, episodes].

    The starts are those of the run's own final evaluation, if it came to its end.
    """
    programs = run.plan.parts.compile(run.plan.shapes, Wanted(training=False))
    parts = math.ceil(episodes / EVALUATION_BATCH)
    update = int(run.state.num_updates)
    results = [jax.device_get(programs.evaluate(run.state.agent, update, part)) for part in range(parts)]
    return jax.tree.map(lambda *xs: np.concatenate(xs, axis=1)[:, :episodes], *results)


def find_policy(name: str, environment: str | None) -> tuple[Any, render.PlayPolicy]:
    """Return (an environment, a policy for it).

    Args:
      name: "random", a run's folder (the agent of its first seed that did not fail), or "module:function".
      environment: its id. What a run was trained on has that run's parameters. None: what the run was trained on.

    Raises:
      InputError: if there is none of either name, or they do not fit one another.
    """
    if name == "random" or not Path(name).is_dir():
        if name != "random" and ":" not in name:
            raise InputError(f"there is no policy '{name}'; allowed: random, a run's folder, module:function")
        env = make_environment(str(environment), {})
        return env, render.random_policy(env) if name == "random" else render.scripted_policy(registry.load(name))
    run = load_run(name)
    other = environment not in (None, run.settings.environment)
    env = make_environment(str(environment), {}) if other else run.plan.env
    spaces = [(of.observation_space.struct, of.action_space.struct) for of in (run.plan.env, env)]
    if spaces[0] != spaces[1]:
        raise InputError(f"the agent of {name} was trained on {run.settings.environment}, whose spaces are others")
    return env, render.agent_policy(run.trainer.algorithm, run.agent(int(np.argmin(run.failed))))


def save_gif(run: TrainedRun, played: Evaluation, path: Path) -> None:
    """Record an episode of the agent that played best, and save it.

    Raises:
      InputError: if the environment cannot be drawn or the file not written.
    """
    if not hasattr(run.plan.env, "render"):
        raise InputError(f"{run.settings.environment} has no picture: its class has no method render")
    returns = np.where(run.failed, -np.inf, played.episode_return.mean(axis=1))
    policy = render.agent_policy(run.trainer.algorithm, run.agent(int(np.argmax(returns))))
    images = render.record(run.plan.env, policy, jax.random.key(run.settings.options.seed))
    render.save_gif(images, path)
