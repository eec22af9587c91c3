"""Callbacks: a user's functions that a run calls on the host at each logged row; they cannot change its results.

A callback is (update, metrics, view). `update` is the number of updates done. `metrics` is {name: f[seeds]}, the row's
metrics, NaN where a seed failed or nothing is known. `view` is a view of the run; it copies agents and states only on
request.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from purerl import registry
from purerl.devices import distributed
from purerl.errors import InputError, check_arguments, kind_of
from purerl.loop.train import TrainState
from purerl.prng import is_key, typed
from purerl.reporting import render, video
from purerl.reporting.files import own_folder
from purerl.run.environments import told_in_a_line
from purerl.settings.runs import Settings
from purerl.types import Algorithm, Environment, PyTree

if TYPE_CHECKING:
    from purerl.run.run import Run

Metrics = dict[str, np.ndarray]
Callback = Callable[[int, Metrics, "View"], Any]


class View:
    """The view of a run that a callback receives, valid during its call."""

    def __init__(self, run: "Run"):
        """Make a view of a `purerl.run.run.Run`."""
        self._run: Run | None = run
        self._state: Any = None  # a `TrainState`, once it is copied
        self.stopped: str | None = None  # the reason that was given

    def __repr__(self) -> str:
        return f"View({self.folder})"

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self._open().folder

    @property
    def settings(self) -> Settings:
        """The run's `Settings`."""
        return self._open().plan.settings

    @property
    def state(self) -> TrainState:
        """A copy of the complete state on the host; leading axis: seeds."""
        run = self._alone("the state")
        if self._state is None:
            state, members = run.progress.state, run.options.seeds
            each = jax.tree.map(lambda x: _copied(x)[:members], state._replace(num_updates=()))
            self._state = each._replace(num_updates=_copied(state.num_updates))
        return self._state

    def agent(self, index: int = 0) -> PyTree:
        """Return a copy of one seed's agent."""
        run = self._alone("an agent")
        return jax.tree.map(lambda x: _copied(x[index]), run.progress.state.agent)

    def save(self) -> None:
        """Save a checkpoint after the row is written."""
        self._open().save_soon = True

    def stop(self, reason: str = "a callback asked for it") -> None:
        """End the run after this row, with a final evaluation, a checkpoint and a summary, as a completed run ends."""
        self._open()
        self.stopped = reason

    def say(self, text: str) -> None:
        """Print a line, above the panel if there is one."""
        self._open().display.line(text)

    def close(self) -> None:
        """Close the view, which would show later updates."""
        self._run = None

    def _open(self) -> "Run":
        if self._run is None:
            raise InputError("a callback's view is only valid during the call")
        return self._run

    def _alone(self, what: str) -> "Run":
        if distributed.several():
            raise InputError(f"{what} is not available in a callback with several processes: each holds only a part")
        return self._open()


def _copied(x: PyTree) -> PyTree:
    """Return a copy of an array on the host that shares no memory with the device, whose buffers are reused."""
    return typed(np.array(jax.random.key_data(x)), x) if is_key(x) else np.array(x)


def checked(callbacks: Sequence[Callback]) -> tuple[Callback, ...]:
    """Return callbacks, after checking that each can be called."""
    wanted = "callbacks must be a list of functions (update, metrics, view)"
    if callable(callbacks) or not isinstance(callbacks, Sequence):
        raise InputError(f"callbacks is {kind_of(callbacks)}; {wanted}")
    for i, callback in enumerate(callbacks):
        if not callable(callback) or isinstance(callback, type):
            raise InputError(f"callbacks[{i}] is {callback!r}; {wanted}")
        check_arguments(callback, f"callbacks[{i}]", "update, metrics, view")
    return tuple(callbacks)


def named(path: str) -> Callback:
    """Return the callback at "module:function"; its exceptions are reported in one line."""
    (found,) = checked([registry.load(path)])

    def callback(update: int, metrics: Metrics, view: View) -> None:
        with told_in_a_line(path, "the callback"):
            found(update, metrics, view)

    return callback


def mean(returns: np.ndarray) -> float:
    """Return the mean over the seeds whose return is known; NaN if there are none."""
    known = returns[np.isfinite(returns)]
    return float(known.mean(dtype=np.float64)) if known.size else math.nan


def film(every: int, env: Environment, algorithm: Algorithm, seed: int, before: int) -> Callback:
    """Return a callback that records an episode of the first seed that did not fail, in videos/ of the run's folder.

    Args:
      every: number of updates between two recordings.
      env, algorithm: the run's environment and algorithm.
      seed: the seed of the start, which is the same each time.
      before: the number of updates done.
    """
    play_one = render.player(env, partial(render.agent_policy, algorithm))
    done = before // every

    def callback(update: int, metrics: Metrics, view: View) -> None:
        nonlocal done
        alive = np.flatnonzero(np.isfinite(metrics["episodes"]))  # a number wherever a seed did not fail
        if update // every <= done or not len(alive):
            return
        done = update // every
        try:
            folder = own_folder(view.folder / "videos")
            episode = play_one(view.agent(int(alive[0])), jax.random.key(seed))
            images = video.captioned(render.frames(env, episode), episode)
            video.save(images, folder / f"{update:09d}.mp4")
        except (InputError, OSError) as error:
            view.say(f"there is no video of update {update:,}: {error}")

    return callback


def stop_at_return(level: float) -> Callback:
    """Return a callback that ends the run when the mean evaluation return over the seeds reaches a level."""

    def callback(update: int, metrics: Metrics, view: View) -> None:
        reached = mean(metrics["evaluation_return"])
        if reached >= level:
            view.stop(f"the mean evaluation return is {reached:.5g}, at least {level:g}")

    return callback
