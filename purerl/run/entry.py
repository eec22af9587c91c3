"""The door from Python to what `purerl train` does: a folder, the display, checkpoints, resuming."""

from pathlib import Path
from typing import Any

from purerl.reporting.display import known
from purerl.run import cache
from purerl.run.plan import Handed
from purerl.run.run import Run, new_run, old_run
from purerl.run.trained_run import TrainedRun, load_run
from purerl.settings.runs import settings
from purerl.settings.trust import trusting


def train(
    algorithm: Any,
    environment: Any,
    config: Any = None,
    *,
    seeds: int = 1,
    total_timesteps: float | None = None,
    out: str | Path | None = None,
    display: str = "auto",
    **values: Any,
) -> TrainedRun:
    """Train agents, as `purerl train` does: with a folder, a display, evaluations and checkpoints.

    Ctrl-C saves and stops; `resume` goes on to the same bits.

    Args:
      algorithm: its name, "module:function", or (spec, config) -> Algorithm itself, such as `partial(ppo, network=N)`.
      environment: its id, "module:Class", or an environment.
      config: the algorithm's settings; those in configs/ if there is none.
      seeds: agents trained side by side.
      total_timesteps: environment steps of each agent; as the config says if none is given.
      out: the folder to make; runs/ALGORITHM-ENVIRONMENT-N if none is named.
      display: "auto" (a live panel in a terminal or a notebook, lines elsewhere), "plain" (lines) or "none".
      **values: settings by the names that config.toml has, such as `num_envs=8`, `learning_rate=1e-3`,
        `evaluations=20`; `env={"gravity": 12.0}` and `groups={"taggers": {"frozen": "random"}}` are its tables.

    Returns:
      The trained agents, as `load_run` gives them.

    Raises:
      InputError: for what cannot be, before anything is written.
      RuntimeError: if every seed failed, or an environment or the disk did.
      KeyboardInterrupt: if it was stopped; it can be resumed.
    """
    parameters, groups = values.pop("env", {}), values.pop("groups", {})
    if total_timesteps is not None:
        values["total_timesteps"] = total_timesteps
    flags = {"seeds": seeds, **values}
    known(display)
    run = settings(algorithm, environment, flags, parameters, groups=groups, config=config)
    cache.enable()
    return _completed(new_run(run, None if out is None else Path(out), display))


def resume(
    folder: str | Path,
    *,
    algorithm: Any = None,
    environment: Any = None,
    config: Any = None,
    display: str = "auto",
    trust: bool = False,
    **devices: Any,
) -> TrainedRun:
    """Go on with a run from its newest checkpoint, to the same bits as if it had never stopped.

    Args:
      folder: the run's, whichever door made it.
      algorithm, environment, config: what it was made of, where no file can hold it: the same objects again.
      display: as for `train`.
      trust: import the modules that its files name.
      **devices: `devices` and `mesh` in place of its own.

    Raises:
      InputError: if there is no run, or it needs objects that are not given here.
      RuntimeError, KeyboardInterrupt: as `train`.
    """
    known(display)
    handed = Handed(algorithm=algorithm, environment=environment, config=config)
    with trusting(trust):
        cache.enable()
        return _completed(old_run(Path(folder), display, handed, **devices))


def _completed(job: Run) -> TrainedRun:
    code, folder, run = job.complete(), job.folder, job.plan.settings
    if code > 128:
        raise KeyboardInterrupt(code - 128)
    if code:
        raise RuntimeError(f"the run in {folder} did not come to a good end; the lines above say why")
    job.progress = None  # its memory is free for what is loaded
    config = run.config if "config" in run.from_python else None
    return load_run(
        folder, trust=True, algorithm=run.factory, environment=run.env, config=config
    )  # named by the caller
