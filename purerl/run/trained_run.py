"""The trained agents of a run's folder: loading, evaluating, acting and rendering."""

import dataclasses
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl import registry
from purerl.devices.sharding import make_mesh
from purerl.errors import InputError
from purerl.host_environment import HostSource
from purerl.loop.evaluate import Evaluation
from purerl.loop.pieces import check_count
from purerl.loop.train import Trainer, TrainState
from purerl.reporting import metrics_csv, render, summary
from purerl.run.acting import ActingPolicy, check_same_spaces
from purerl.run.environments import make_environment
from purerl.run.plan import Handed, Plan, make_plan, saved_run
from purerl.run.program import Wanted
from purerl.settings import agent_file
from purerl.settings.options import check_seed
from purerl.settings.runs import Settings, with_environment
from purerl.trust import trusting, typed
from purerl.types import AlgorithmFactory, Config, Environment, PyTree


class TrainedRun(NamedTuple):
    """The agents in a checkpoint of a run, to evaluate, to act with and to plot.

    Example:
      >>> import purerl
      >>> run = purerl.load_run("zoo/ppo-CartPole-v1")
      >>> run.settings.algorithm
      'ppo'
    """

    settings: Settings
    trainer: Trainer
    state: TrainState  # leading axis: seeds, except in `num_updates`
    failed: np.ndarray  # bool[seeds], whether a seed's metrics stopped being finite
    plan: Plan
    folder: Path

    def agent(self, index: int = 0) -> PyTree:
        """Return the agent of one seed, for `evaluate(trainer, agent, key)`.

        Raises:
          InputError: if there is none.
        """
        if not -len(self.failed) <= index < len(self.failed):
            raise InputError(f"there is no agent {index}: the run has {len(self.failed)} seeds, counted from 0")
        return jax.tree.map(lambda x: x[index], self.state.agent)

    def searching(self, simulations: int) -> "TrainedRun":
        """Return the same agents with another number of simulations per move.

        Raises:
          InputError: if they do not search.
        """
        config = with_simulations(self.settings.config, simulations, str(self.folder))
        plan = make_plan(dataclasses.replace(self.settings, config=config), make_mesh(1))
        return self._replace(settings=plan.settings, trainer=plan.trainer, plan=plan)

    def policy(self, seed: int | None = None, explore: bool = False) -> ActingPolicy:
        """Return an agent that acts: `action = policy(observation)`.

        Args:
          seed: whose agent, as `--seed` numbers them; None: the first one that did not fail.
          explore: act as in training instead of greedily.

        Raises:
          InputError: if the run has no such seed, or its agents search.
        """
        agent = self.agent_of(seed)
        check_acts_alone(self)
        return ActingPolicy(*self.trainer.player(agent), self.plan.stage, explore)

    def agent_of(self, seed: int | None = None) -> PyTree:
        """Return the agent of a seed, numbered as in `--seed`; None: the first seed that did not fail.

        Raises:
          InputError: if the run has no such seed.
        """
        first, count = self.settings.options.seed, len(self.failed)
        index = (self.first_seed if seed is None else seed) - first
        if not 0 <= index < count:
            raise InputError(f"the run has no seed {seed}; its seeds are {first} .. {first + count - 1}")
        return self.agent(index)

    def evaluate(
        self, episodes: int = 128, env: Environment | str | None = None, seed: int | None = None, **parameters: object
    ) -> Evaluation:
        """Play greedy episodes with every seed's agent, optionally in another environment than in training.

        Args:
          episodes: number of episodes per seed.
          env: another environment with the same spaces, a name or an object; None: the run's own.
          seed: the seed of the starts, which all agents share; None: the starts of the run's own final evaluation.
          **parameters: parameters of the environment, such as gravity=12.0.

        Returns:
          `Evaluation` of NumPy arrays [seeds, episodes].

        Raises:
          InputError: if the environment or a parameter is unknown, or the environment's spaces differ.
        """
        typed(env)
        return play(self, check_count(episodes, "episodes"), env, seed, parameters)

    @property
    def first_seed(self) -> int:
        """The first seed that did not fail."""
        return self.settings.options.seed + int(np.argmin(self.failed))

    @property
    def metrics(self) -> Any:
        """The rows of metrics.csv: a DataFrame if pandas is installed, otherwise {name: NumPy column}."""
        columns = metrics_csv.read(self.folder / "metrics.csv")
        if importlib.util.find_spec("pandas") is None:
            return columns
        import pandas

        whole = {name: values.astype(np.int64) for name, values in columns.items() if name in ("seed", "update")}
        return pandas.DataFrame(columns | whole)

    def plot(self, path: str | Path | None = None) -> Path:
        """Draw the learning curve into a file, by default curve.png in the run's folder; return its path."""
        from purerl.reporting.plot import plot_run

        return plot_run(self.folder, None if path is None else Path(path))

    def __repr__(self) -> str:
        of, count = self.settings, len(self.failed)
        seeds = "1 seed" if count == 1 else f"{count} seeds"
        return f"TrainedRun({of.algorithm} on {of.environment}, {seeds}, update {int(self.state.num_updates):,})"


def with_simulations(config: Config, simulations: int, name: str) -> Config:
    """Return settings in which the agents of the run `name` use another number of simulations.

    Raises:
      InputError: if their algorithm does not search.
    """
    if not hasattr(config, "num_simulations"):
        raise InputError(f"the agents of {name} do not plan: simulations only apply to alphazero and muzero")
    return dataclasses.replace(config, num_simulations=simulations)


def check_acts_alone(run: TrainedRun) -> None:
    """Raise an `InputError` if an agent needs more than observations to act."""
    if run.settings.config.plans:
        raise InputError(
            f"{run.settings.algorithm} plans from the environment's state, which observations do not contain: evaluate "
            "or play its agents; only export to .safetensors, which holds their parameters, is possible"
        )


def load_run(
    folder: str | Path,
    trust: bool = False,
    *,
    checkpoint: str | int = "latest",
    algorithm: AlgorithmFactory | str | None = None,
    environment: Environment | HostSource | str | None = None,
    config: Config | None = None,
) -> TrainedRun:
    """Load the agents of a run from a checkpoint.

    Args:
      folder: the run's folder, such as runs/ppo-CartPole-v1-1; or an agent: a .safetensors file of `purerl export`, or
        zoo/NAME. An agent counts as a run of one seed.
      trust: whether to import the modules that the folder names, if its algorithm or environment is a module:name.
      checkpoint: "latest", "best" (for a run with `keep_best`) or the update of a kept checkpoint.
      algorithm, environment, config: the Python objects of the run, if no file can hold them.

    Returns:
      The agents, with their settings: `run.evaluate()`, `run.policy()`, `run.metrics`.

    Raises:
      InputError: if there is no run or no checkpoint, it is damaged, it names a module that is not trusted, or it needs
        objects that are not given.

    Example:
      >>> import purerl
      >>> run = purerl.load_run("zoo/ppo-CartPole-v1")
      >>> run.evaluate(episodes=4).episode_return.shape
      (1, 4)
    """
    if not isinstance(folder, str | Path):
        raise InputError(f"load_run takes the folder of a run; this is {folder!r}")
    typed(algorithm, environment)
    with trusting(trust):
        handed = Handed(algorithm=algorithm, environment=environment, config=config)
        plan, progress = saved_run(Path(folder), handed, checkpoint)
    failed = np.asarray(progress.failed_at) > 0
    return TrainedRun(
        settings=plan.settings,
        trainer=plan.trainer,
        state=progress.state,
        failed=failed,
        plan=plan,
        folder=Path(folder),
    )


def play(
    run: TrainedRun,
    episodes: int,
    env: Environment | str | None = None,
    seed: int | None = None,
    parameters: Mapping[str, object] = MappingProxyType({}),
) -> Evaluation:
    """Play greedy episodes with every seed's agent; return an `Evaluation` with axes [seeds, episodes].

    Arguments and errors as for `TrainedRun.evaluate`. The starts are those of the run's own final evaluation, if it
    came to its end.
    """
    if seed is not None:
        check_seed(seed)
    plan = plan_in(run, env, parameters)
    functions: Any = plan.parts
    if seed is not None:
        functions = functions._replace(seeds=np.full_like(functions.seeds, seed))
    program = functions.compile(plan.shapes, Wanted(training=False))
    try:
        return program.play(run.state.agent, int(run.state.num_updates), episodes)
    finally:
        program.close()


def plan_in(
    run: TrainedRun, env: Environment | str | None = None, parameters: Mapping[str, object] = MappingProxyType({})
) -> Plan:
    """Return a run's plan in another environment, or with other parameters of its own; without either, unchanged.

    Raises:
      InputError: if there is none, or its spaces differ.
    """
    if env is None and not parameters:
        return run.plan
    plan = make_plan(with_environment(run.settings, env, parameters), make_mesh(1))
    check_same_spaces(run.plan.env, plan.env, f"the agent of {run.folder} was trained on {run.settings.environment}")
    return plan


def find_policy(
    name: str, environment: str | None, parameters: Mapping[str, object] = MappingProxyType({})
) -> tuple[Any, render.PlayPolicy]:
    """Return (an environment, a policy for it).

    Args:
      name: "random", a run's folder (the agent of its first seed that did not fail), an agent's file, zoo/NAME, or
        "module:function".
      environment: its id. What a run was trained on has that run's parameters. None: what the run was trained on.
      parameters: the parameters of the environment, instead of its own.

    Raises:
      InputError: if there is none of either name, or they do not fit one another.
    """
    if name == "random" or not (Path(name).is_dir() or agent_file.find(Path(name))):
        if name != "random" and ":" not in name:
            raise InputError(
                f"there is no policy '{name}'; allowed: random, a run's folder, an agent's file, zoo/NAME, "
                "module:function"
            )
        env = make_environment(str(environment), dict(parameters))
        return env, render.random_policy(env) if name == "random" else render.scripted_policy(registry.load(name))
    run = load_run(name)
    other = environment not in (None, run.settings.environment)
    plan = plan_in(run, environment if other else None, parameters)
    return plan.stage, render.agent_policy(plan.trainer.algorithm, run.agent(int(np.argmin(run.failed))))


def table(run: TrainedRun, played: Evaluation) -> list[str]:
    """Return the episodes of an evaluation as lines: a row per seed, then the mean over the seeds."""
    lines = [f"{run.settings.algorithm} on {run.settings.environment}, update {int(run.state.num_updates):,}"]
    lines.append(f"{'seed':>6} {'return':>10} {'std':>9} {'min':>9} {'max':>9} {'length':>8}")
    for i, returns in enumerate(played.episode_return):
        seed, length = run.settings.options.seed + i, played.episode_length[i].mean()
        numbers = f"{returns.mean():10.5g} {returns.std():9.4g} {returns.min():9.5g} {returns.max():9.5g} {length:8.5g}"
        lines.append(f"{seed:6} {numbers}{'  failed in training' if run.failed[i] else ''}")
    for name, returns in played.group_return.items():
        lines.append(f"{name}, per agent: {', '.join(f'{mean:.5g}' for mean in returns.mean(axis=1))}")
    if len(played.episode_return) > 1:
        means = np.where(run.failed, np.nan, played.episode_return.mean(axis=1))
        over = summary.over_seeds(means.tolist(), float(played.episode_return.min()))
        failed = over["mean"] is None
        numbers = "every seed failed in training" if failed else f"mean {summary.center(over)}{summary.failures(over)}"
        lines.append(f"over seeds: {numbers}")
    if not played.finished.all():
        lines.append(f"{(~played.finished).sum()} of {played.finished.size} episodes did not end and were cut off")
    return lines
