"""The result of a sweep: curves per trial and seed, one table, the best trial as settings."""

import dataclasses
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike

from purerl.devices import distributed
from purerl.errors import InputError, printable
from purerl.loop.extension import Setup, with_values
from purerl.prng import is_key
from purerl.reporting.files import csv_text, write_whole
from purerl.run import checkpoint
from purerl.run.folders import changes
from purerl.settings import toml
from purerl.settings.runs import absent, dump
from purerl.sweeps.plan import SweepPlan, dump_sweep
from purerl.trust import reading
from purerl.types import PyTree

FREE = (  # settings that may change
    *("search.checkpoint_interval", "search.chunk", "search.fresh_seeds"),
    *("keep_checkpoints", "checkpoint_interval"),
)
MOST = 2**20  # numbers in an array of curves.npz whose size is not known beforehand
LAST = 0.1  # last part of a curve, whose mean is the score of a trial


class Curves(NamedTuple):
    """The training returns of each run at the same number of points, for runs of any length."""

    env_steps: np.ndarray  # i64[trials, points]
    episode_return: np.ndarray  # f32[trials, seeds, points]; NaN: no episode ended, or not trained so far
    failed: np.ndarray  # bool[trials, seeds], metrics that were not finite
    trained: np.ndarray  # i64[trials], points trained

    @staticmethod
    def empty(env_steps: np.ndarray, num_seeds: int) -> "Curves":
        """Return curves without values."""
        trials, points = env_steps.shape
        values = np.full((trials, num_seeds, points), np.nan, np.float32)
        return Curves(
            env_steps=env_steps,
            episode_return=values,
            failed=np.zeros((trials, num_seeds), bool),
            trained=np.zeros(trials, np.int64),
        )

    def save(self, folder: Path, **more: np.ndarray) -> None:
        """Write curves.npz, with additional arrays."""
        arrays = {**self._asdict(), **more}
        write_whole(folder / "curves.npz", lambda file: np.savez_compressed(file, allow_pickle=False, **arrays))

    def forget(self, trials: np.ndarray) -> None:
        """Reset these trials."""
        self.trained[trials], self.episode_return[trials], self.failed[trials] = 0, np.nan, False

    def final_return(self, points: int | None = None) -> np.ndarray:
        """Return f64[trials, seeds]: the mean over the last tenth of the trained points, or of the first `points`.

        Points at which no episode ended do not count; the result is NaN without any other, and for a failed seed.
        """
        reached = self.trained if points is None else np.minimum(points, self.trained)
        found = np.full(self.failed.shape, np.nan)
        for upto in np.unique(reached[reached > 0]):
            trials = reached == upto
            found[trials] = _last(self.episode_return[trials, :, :upto])
        return np.where(self.failed, np.nan, found)


def mean_known(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the mean over an axis without NaN: f64[...], NaN if nothing is known."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis, dtype=np.float64)
    return np.where(known.any(axis), total / np.maximum(known.sum(axis), 1), np.nan)


def _last(values: np.ndarray) -> np.ndarray:
    """Return f64[trials, seeds]: the mean over the last tenth of [trials, seeds, points], or the last known one."""
    points = values.shape[-1]
    means = mean_known(values[..., -max(1, round(LAST * points)) :])
    latest = points - 1 - np.argmax(~np.isnan(values[..., ::-1]), axis=-1)
    return np.where(np.isnan(means), np.take_along_axis(values, latest[..., None], -1)[..., 0], means)


class Entrants(NamedTuple):
    """The entrants that a sweep compares: n trials of several seeds, or n agents of populations."""

    values: list[dict[str, Any]]  # [n], what was searched
    scores: np.ndarray  # f64[n], final returns; NaN where one failed or was stopped
    curves: Curves  # [n, seeds, points], of agents one seed each

    @property
    def best(self) -> int | None:
        """The index of the highest score; None where all are NaN."""
        return None if np.isnan(self.scores).all() else int(np.nanargmax(self.scores))


@dataclasses.dataclass(frozen=True)
class SweepResult:
    """The result of a sweep: `rows()` has a row per trial and seed, in the order of the trials."""

    plan: SweepPlan
    curves: Curves
    values: list[list[dict[str, Any]]]  # [trials][seeds], what was searched; pbt changes it on the way
    folder: Path | None
    fresh: np.ndarray | None = None  # f64[fresh_seeds], the best settings' final returns with other seeds

    def rows(self) -> list[dict[str, Any]]:
        """Return the table: a row per trial and seed that was trained at all."""
        final = self.curves.final_return()
        means = mean_known(self.curves.episode_return)
        rows = []
        for trial, seed in np.ndindex(final.shape):
            trained = self.curves.trained[trial]
            if not trained:
                continue
            row: dict[str, Any] = {"trial": trial, "seed": int(self.plan.seeds[seed]), **self.values[trial][seed]}
            row[f"final_{self.plan.measure}"] = self.plan.sign * float(final[trial, seed])
            row[f"mean_{self.plan.measure}"] = self.plan.sign * float(means[trial, seed])
            row["env_steps"] = int(self.curves.env_steps[trial, trained - 1])
            row["failed"] = bool(self.curves.failed[trial, seed])
            rows.append(row)
        return rows

    def scores(self) -> np.ndarray:
        """Return the final returns, f64[trials], the mean over seeds; NaN if a seed failed or the trial was stopped.

        Where each of the longest trials failed, those count that were trained the longest without.
        """
        found, trained = self.curves.final_return().mean(axis=1), self.curves.trained
        longest = trained[~np.isnan(found)].max(initial=0)
        return np.where(trained == longest, found, np.nan)

    @property
    def best(self) -> dict[str, Any]:
        """{name: value} of the trial with the best mean over seeds, or of a population's best agent.

        There are none where no trial has a return and stayed finite.
        """
        entrants = self.entrants()
        return {} if entrants.best is None else entrants.values[entrants.best]

    @property
    def best_return(self) -> float:
        """The final return of the best entrant, or another metric: the mean over its seeds; NaN without one."""
        entrants = self.entrants()
        return math.nan if entrants.best is None else self.plan.sign * float(entrants.scores[entrants.best])

    def entrants(self) -> Entrants:
        """Return the entrants: trials, or the agents of populations, each of which has its own values."""
        curves = self.curves
        if self.plan.options.method != "pbt":
            return Entrants(values=[values[0] for values in self.values], scores=self.scores(), curves=curves)
        steps, trained = (np.repeat(part, curves.failed.shape[1], 0) for part in (curves.env_steps, curves.trained))
        returns, failed = curves.episode_return.reshape(len(steps), 1, -1), curves.failed.reshape(-1, 1)
        values = [values for trial in self.values for values in trial]
        alone = Curves(env_steps=steps, episode_return=returns, failed=failed, trained=trained)
        return Entrants(values=values, scores=alone.final_return()[:, 0], curves=alone)

    def fresh_text(self) -> str:
        """Return a line about how reliable the best return is."""
        if self.fresh is None:
            return "(a maximum over trials, on the seeds that selected it; --fresh-seeds N retrains it with new seeds)"
        known = self.fresh[np.isfinite(self.fresh)]
        failed = f", {len(self.fresh) - len(known)} failed" if len(known) < len(self.fresh) else ""
        measure = self.plan.measure
        mean = f"mean {measure} {known.mean():.6g}" if known.size else f"no {measure}"
        return f"with {len(self.fresh)} other seeds: {mean}{failed}"

    def best_toml(self) -> str:
        """Return the best settings in the format of `purerl train --config`."""
        run = self.plan.settings
        setup = with_values(Setup(config=run.config, env=self.plan.setup.env, options=run.extension_options), self.best)
        task = {name.removeprefix("env."): value for name, value in self.best.items() if name.startswith("env.")}
        run = dataclasses.replace(
            run,
            config=setup.config,
            extension_options=setup.options,
            parameters={**run.parameters, **task},
        )
        best = f"{self.plan.measure} {self.best_return:.6g}"
        head = f"# the best of {len(self.values)} trials: {best}\n# {self.fresh_text()}\n"
        return f"{head}{dump(run, setup.env)}"

    def to_csv(self) -> str:
        """Return the table as text."""
        return csv_text(self.rows(), "trial")

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame.

        Raises:
          InputError: if pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise InputError("to_pandas needs pandas: pip install pandas; rows() needs nothing") from None
        return pandas.DataFrame(self.rows())

    def save(self) -> None:
        """Write trials.csv and best.toml, each completely or not at all."""
        if self.folder is None:
            return
        write_whole(self.folder / "trials.csv", self.to_csv())
        if self.best:
            write_whole(self.folder / "best.toml", self.best_toml())


def save_latest(folder: Path, step: int, tree: PyTree, members: int, plan: SweepPlan) -> None:
    """Save a sweep's checkpoint with this many members to its folder; it replaces the previous one."""
    metadata = {"members": members, "settings": dump_sweep(plan)}
    checkpoint.save(folder / "checkpoints", step, tree, metadata, keep=1)


def drop_latest(folder: Path) -> None:
    """Remove the checkpoint of a sweep that no longer needs it."""
    distributed.first_does(lambda: str(shutil.rmtree(folder / "checkpoints", ignore_errors=True)))


def load_latest(folder: Path, plan: SweepPlan, template: Callable[[int], PyTree]) -> PyTree:
    """Load a sweep's newest checkpoint as a tree of host arrays; None if there is none.

    Args:
      folder: the folder of the sweep.
      plan: the plan of the sweep.
      template: (number of members that are stored) -> the tree that is expected.

    Raises:
      InputError: if it is damaged, or was made with other settings.
    """
    checkpoints = folder / "checkpoints"
    newest = checkpoint.newest(checkpoints)
    if not newest:
        return None
    check_settings(folder, plan, checkpoint.read_metadata(checkpoints, newest).get("settings"))
    tree, _ = checkpoint.load(checkpoints, newest, template(checkpoint.members(checkpoints, newest)))
    return jax.tree.map(lambda x: x if is_key(x) else np.array(x), tree)


def check_settings(folder: Path, plan: SweepPlan, written: object) -> None:
    """Check a sweep's settings against the settings of its saved results.

    Raises:
      InputError: if they differ.
    """
    told = changes(folder / toml.SWEEP.file, written, dump_sweep(plan), FREE.__contains__, absent(plan.settings))
    if told and distributed.is_first():
        print(printable(told))


def load_curves(folder: Path, blank: Curves, **more: np.ndarray) -> tuple[Curves, dict[str, np.ndarray]]:
    """Return the curves in a sweep's folder, and the file's other arrays; unexpected ones are not read.

    Args:
      folder: the folder of the sweep.
      blank: curves of the shapes that are expected.
      **more: {name: array} of further arrays to load, with the dtype and the number of axes that are expected.

    Raises:
      InputError: if there are none, or they are not as expected.
    """
    path = folder / "curves.npz"
    try:
        with reading.arrays(path, reading.TABLE) as (there, file):
            for name, wanted in {**blank._asdict(), **more}.items():
                shape, dtype = there[name]
                fits = len(shape) == wanted.ndim if name in more else shape == wanted.shape
                if dtype != wanted.dtype or not fits or math.prod(shape) > max(MOST, wanted.size):
                    raise InputError(f"{path} belongs to another sweep: '{name}' is {dtype}{list(shape)}")
            curves = Curves(**{name: file[name] for name in Curves._fields})
            check_counts("trained", curves.trained, blank.env_steps.shape[1], path)
            return curves, {name: file[name] for name in more}
    except InputError as error:
        hint = "" if "another sweep" in str(error) else ": remove it to begin again with what it held"
        raise InputError(f"{error}{hint}") from None


def check_counts(name: str, found: np.ndarray, most: ArrayLike, path: Path) -> None:
    """Raise an `InputError` unless counts from a file are from 0 to `most`."""
    if ((found < 0) | (found > most)).any():
        raise InputError(f"{path} is damaged: '{name}' has a number that is not from 0 to {np.max(most):,}")
