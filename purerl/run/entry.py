"""The Python API of `purerl train`: a folder, the display, checkpoints, resuming."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from purerl.errors import path_given
from purerl.host_environment import HostSource
from purerl.run import cache
from purerl.run.callbacks import Callback
from purerl.run.opening import new_run, old_run
from purerl.run.plan import Handed
from purerl.run.run import Run
from purerl.run.trained_run import TrainedRun, load_run
from purerl.settings.extensions import named
from purerl.settings.runs import settings
from purerl.trust import trusting, typed
from purerl.types import AlgorithmFactory, Config, Environment


def train(
    algorithm: AlgorithmFactory | str,
    environment: Environment | HostSource | str,
    config: Config | None = None,
    *,
    seeds: int = 1,
    total_timesteps: float | None = None,
    out: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    display: str = "auto",
    **values: Any,
) -> TrainedRun:
    """Train agents, as `purerl train` does: with a folder, a display, evaluations and checkpoints.

    Ctrl-C saves and stops; `resume` continues, with bit-identical results.

    Args:
      algorithm: its name, "module:function", or (spec, config) -> Algorithm itself, such as `partial(ppo, network=N)`.
      environment: its id, "module:Class", or an environment.
      config: the algorithm's settings; by default those in configs/.
      seeds: the number of agents trained in parallel.
      total_timesteps: environment steps of each agent; None: from the config.
      out: the output folder; by default runs/ALGORITHM-ENVIRONMENT-N.
      callbacks: functions (update, metrics, view), called at each logged row: see `purerl.run.callbacks.View`. They do
        not change the result.
      display: "auto" (a live panel in a terminal or a notebook, lines elsewhere), "plain" (lines) or "none".
      **values: settings by their names in config.toml, such as `num_envs=8`, `learning_rate=1e-3`, `evaluations=20`;
        `env={"gravity": 12.0}` and `groups={"taggers": {"frozen": "random"}}` are tables in it.

    Returns:
      The trained agents, as `load_run` returns them.

    Raises:
      InputError: for settings that cannot be used, before anything is written.
      RuntimeError: if every seed, an environment or the disk failed.
      KeyboardInterrupt: if it was stopped; it can be resumed.

    Example:
      >>> import purerl
      >>> run = purerl.train("ppo", "Catch", total_timesteps=1_024, out="example", display="none")
      >>> run.settings.environment
      'Catch'
    """
    parameters = values.pop("env", {})
    if total_timesteps is not None:
        values["total_timesteps"] = total_timesteps
    as_many_as_fit = values.get("num_envs") == "auto" and bool(values.pop("num_envs"))
    flags = {"seeds": seeds, **values}
    typed(algorithm, environment, *named(flags), *parameters.values())
    run = settings(algorithm, environment, flags, parameters, config=config)
    cache.enable()
    return _completed(new_run(run, None if out is None else path_given(out, "out"), display, as_many_as_fit, callbacks))


def resume(
    folder: str | Path,
    *,
    algorithm: AlgorithmFactory | str | None = None,
    environment: Environment | HostSource | str | None = None,
    config: Config | None = None,
    total_timesteps: float | None = None,
    callbacks: Sequence[Callback] = (),
    display: str = "auto",
    trust: bool = False,
    **options: object,
) -> TrainedRun:
    """Resume a run from its newest checkpoint, with results that are bit-identical to an uninterrupted run.

    Args:
      folder: the run's folder.
      algorithm, environment, config: the same Python objects as before, if no file can hold them.
      total_timesteps: a new, larger length of the run; the schedules follow it from the checkpoint on.
      callbacks, display: as for `train`.
      trust: whether to import the modules that the run's files name.
      **options: new values of `devices`, `mesh` and `stop_at_return`.

    Returns:
      The trained agents, as `train` returns them.

    Raises:
      InputError: if there is no run, or it needs objects that are not given.
      RuntimeError, KeyboardInterrupt: as `train`.

    Example:
      >>> import purerl
      >>> run = purerl.train("ppo", "Catch", total_timesteps=1_024, out="resumed", display="none")
      >>> int(purerl.resume("resumed", total_timesteps=2_048, display="none").metrics["env_steps"].max())
      2048
    """
    typed(algorithm, environment)
    handed = Handed(algorithm=algorithm, environment=environment, config=config)
    with trusting(trust):
        cache.enable()
        return _completed(old_run(path_given(folder, "folder"), display, handed, callbacks, total_timesteps, **options))


def _completed(job: Run) -> TrainedRun:
    job.succeed()
    folder, run = job.folder, job.plan.settings
    job.progress = None  # its memory is free for what is loaded
    config = run.config if "config" in run.from_python else None
    return load_run(
        folder, trust=True, algorithm=run.factory, environment=run.env, config=config
    )  # named by the caller
