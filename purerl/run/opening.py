"""Opens a run from settings or from a folder; impossible settings are rejected before anything is written."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from purerl.devices import distributed
from purerl.errors import InputError, hints, unknown
from purerl.replay import sizes
from purerl.reporting import sinks, video
from purerl.reporting.display import known
from purerl.run import sizing
from purerl.run.callbacks import Callback, checked
from purerl.run.folders import enter_folder
from purerl.run.plan import Handed, Plan, make_plan, saved_settings, settings_text
from purerl.run.run import Run
from purerl.settings import agent_file, toml
from purerl.settings.options import RESUMED, RunOptions
from purerl.settings.runs import Settings
from purerl.settings.values import coerce


def start(
    run: Settings,
    out: Path | None = None,
    plain: bool = False,
    as_many_as_fit: bool = False,
    callbacks: Sequence[Callback] = (),
) -> int:
    """Train from the beginning, as `new_run` describes, and return the exit code of `LongJob.complete`."""
    return new_run(run, out, "plain" if plain else "auto", as_many_as_fit, callbacks).complete()


def resume(folder: Path, plain: bool = False, callbacks: Sequence[Callback] = (), **options: Any) -> int:
    """Resume from the newest checkpoint, as `old_run` describes, and return the exit code of `LongJob.complete`."""
    return old_run(folder, "plain" if plain else "auto", callbacks=callbacks, **options).complete()


def new_run(
    run: Settings,
    out: Path | None = None,
    display: str = "auto",
    as_many_as_fit: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Return a new run in its own folder.

    Args:
      run: the settings.
      out: the folder to make; None: runs/ALGORITHM-ENVIRONMENT-N.
      display: one of `purerl.reporting.display.DISPLAYS`.
      as_many_as_fit: choose the number of environments by the memory there is.
      callbacks: called at each row, see `purerl.run.callbacks`.
    """
    known(display)
    callbacks = checked(callbacks)
    if as_many_as_fit:
        run, line = sizing.largest(run)
        print(line)
    planned = make_plan(run)
    line = _check_memory(planned)
    if line:
        print(line)
    _check_options(planned)
    words = (run.algorithm.removeprefix("__main__:"), run.environment.removeprefix("__main__:"))
    folder, _ = enter_folder(toml.RUN, out, words, settings_text(planned), files=run.kept_files())
    return Run(planned, folder, display, callbacks=callbacks)


def old_run(
    folder: Path,
    display: str = "auto",
    handed: Handed = Handed(),
    callbacks: Sequence[Callback] = (),
    total_timesteps: float | None = None,
    **options: object,
) -> Run:
    """Return a run at its newest checkpoint; its results are bit-identical to an uninterrupted run.

    Args:
      folder: the folder of the run.
      display, callbacks: as for `new_run`.
      handed: the objects that it was made of.
      total_timesteps: a new length; schedules follow it from the position of the run.
      options: new values of `RESUMED` options; other devices change no bit if only seeds are spread.
    """
    known(display)
    callbacks = checked(callbacks)
    if agent_file.find(folder):
        raise InputError(
            f"{folder} is an exported agent, not a run to resume; to start a new run from it, use --start {folder}"
        )
    run, kinds = saved_settings(folder, handed), hints(RunOptions)
    for name in options:
        if name not in RESUMED:
            raise unknown("setting of a resumed run", name, (*RESUMED, "total_timesteps"))
    options = {name: coerce(value, kinds[name], name) for name, value in options.items()}
    run = dataclasses.replace(run, options=dataclasses.replace(run.options, **options))
    if total_timesteps is not None:
        length = coerce(total_timesteps, int, "total_timesteps")
        run = dataclasses.replace(run, config=dataclasses.replace(run.config, total_timesteps=length))
    planned = make_plan(run)
    _check_memory(planned)
    _check_options(planned)
    job = Run(planned, folder, display, go_on=True, callbacks=callbacks)
    reached = job.update == planned.num_updates and job.length_changed and not job.already_finished()
    if job.update > planned.num_updates or reached:
        job.close()
        raise InputError(
            f"total_timesteps is {int(run.config.total_timesteps):,}; the run in {folder} has done "
            f"{job.update * run.config.steps_per_update:,} already: give a larger number"
        )
    if job.length_changed:
        job.notices.append("schedules that go by the length of the run follow the new length from here on")
    if total_timesteps is not None or set(options) - {"devices", "mesh"}:  # for the next resume
        job.write_settings(settings_text(planned))
    return job


def _check_options(planned: Plan) -> None:
    """Reject options whose packages or pictures are missing."""
    options = planned.settings.options
    sinks.require(options)
    if options.video_interval:
        if distributed.several():
            raise InputError("video_interval is for one process: each of several holds a part of the agents")
        video.drawable(planned.env, planned.settings.environment)
        video.check(Path("episode.mp4"))


def _check_memory(planned: Plan) -> str | None:
    """Check that a run fits in the free memory; return the size of its replay in one line."""
    sizing.check_all(planned)
    run = planned.settings
    return sizes.line(planned.shapes.state.agent, run.config, run.options.seeds)
