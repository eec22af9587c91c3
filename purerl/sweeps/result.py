"""The result of a sweep: curves per trial and seed, one table, the best trial as settings."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl.errors import InputError
from purerl.loop.population import with_values
from purerl.prng import is_key
from purerl.reporting.files import csv_text, write_whole
from purerl.run import checkpoint
from purerl.settings.runs import dump
from purerl.sweeps.plan import SweepPlan

LAST = 0.1  # of a curve: its mean is what a trial is judged by


class Curves(NamedTuple):
    """Returns of training episodes at the same number of points, whatever the runs' length."""

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
        """Write curves.npz, and more arrays into it."""
        arrays = {**self._asdict(), **more}
        write_whole(folder / "curves.npz", lambda path: np.savez_compressed(path, allow_pickle=False, **arrays))

    def forget(self, trials: np.ndarray) -> None:
        """Reset these trials."""
        self.trained[trials], self.episode_return[trials], self.failed[trials] = 0, np.nan, False

    def final_return(self, points: int | None = None) -> np.ndarray:
        """Return f64[trials, seeds]: the mean over the last tenth of what was trained, or of the first `points`.

        Points at which no episode ended do not count; without any it is NaN, as it is for a seed that failed.
        """
        reached = self.trained if points is None else np.minimum(points, self.trained)
        found = np.full(self.failed.shape, np.nan)
        for upto in np.unique(reached[reached > 0]):
            trials = reached == upto
            found[trials] = _last(self.episode_return[trials, :, :upto])
        return np.where(self.failed, np.nan, found)


def mean_known(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the mean over an axis of what is not NaN: f64[...], NaN where nothing is known."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis, dtype=np.float64)
    return np.where(known.any(axis), total / np.maximum(known.sum(axis), 1), np.nan)


def _last(values: np.ndarray) -> np.ndarray:
    """Return f64[trials, seeds]: the mean over the last tenth of [trials, seeds, points], or the last one known."""
    points = values.shape[-1]
    means = mean_known(values[..., -max(1, round(LAST * points)) :])
    latest = points - 1 - np.argmax(~np.isnan(values[..., ::-1]), axis=-1)
    return np.where(np.isnan(means), np.take_along_axis(values, latest[..., None], -1)[..., 0], means)


@dataclasses.dataclass(frozen=True)
class SweepResult:
    """A sweep's outcome: `rows()` is a row per trial and seed, in the order of the trials."""

    plan: SweepPlan
    curves: Curves
    values: list[list[dict[str, Any]]]  # [trials][seeds], what was searched; pbt changes it on the way
    folder: Path | None

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
            row["final_return"], row["mean_return"] = float(final[trial, seed]), float(means[trial, seed])
            row["env_steps"] = int(self.curves.env_steps[trial, trained - 1])
            row["failed"] = bool(self.curves.failed[trial, seed])
            rows.append(row)
        return rows

    def scores(self) -> np.ndarray:
        """Return f64[trials]: final returns, the mean over seeds; NaN where a seed failed or the trial was stopped."""
        whole = self.curves.trained == self.curves.trained.max()
        return np.where(whole, self.curves.final_return().mean(axis=1), np.nan)

    @property
    def best(self) -> dict[str, Any]:
        """The values that were best, by name: a trial's by its mean over seeds, or the best agent's of a population."""
        trial, seed = self._best()
        return self.values[trial][seed]

    @property
    def best_return(self) -> float:
        """The final return of the best: the mean over its seeds, or of a population's best agent."""
        trial, seed = self._best()
        return float(self._judged()[trial, seed])

    def _judged(self) -> np.ndarray:
        """Return f64[trials, 1], or of each agent of a population, f64[trials, seeds]."""
        return self.curves.final_return() if self.plan.options.method == "pbt" else self.scores()[:, None]

    def _best(self) -> tuple[int, int]:
        scores = self._judged()
        if np.isnan(scores).all():
            return 0, 0
        trial, seed = np.unravel_index(np.nanargmax(scores), scores.shape)
        return int(trial), int(seed)

    def best_toml(self) -> str:
        """Return the best settings, as `purerl train --config` takes them."""
        config, env = with_values(self.plan.settings.config, self.plan.env, self.best)
        task = {name.removeprefix("env."): value for name, value in self.best.items() if name.startswith("env.")}
        run = dataclasses.replace(
            self.plan.settings, config=config, parameters={**self.plan.settings.parameters, **task}
        )
        return f"# the best of {len(self.values)} trials: return {self.best_return:.6g}\n{dump(run, env)}"

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
        """Write trials.csv and best.toml, each whole or not at all."""
        if self.folder is None:
            return
        write_whole(self.folder / "trials.csv", self.to_csv())
        write_whole(self.folder / "best.toml", self.best_toml())


def load_latest(folder: Path, template: Callable[[int | None], Any]) -> Any:
    """Return the tree of the newest checkpoint in a folder, its arrays on the host; None if there is none.

    Args:
      folder: of the checkpoints.
      template: (number of members that are stored, None if it is not known) -> the tree that is expected.
    """
    newest = checkpoint.newest(folder)
    if not newest:
        return None
    members = checkpoint.read_metadata(folder, newest).get("members")
    tree, _ = checkpoint.load(folder, newest, template(members))
    return jax.tree.map(lambda x: x if is_key(x) else np.array(x), tree)


def load_curves(folder: Path) -> tuple[Curves, dict[str, np.ndarray]]:
    """Return the curves of a sweep's folder, and what else is in the file.

    Raises:
      InputError: if there are none.
    """
    try:
        with np.load(folder / "curves.npz", allow_pickle=False) as file:
            arrays = dict(file)
        return Curves(**{name: arrays.pop(name) for name in Curves._fields}), arrays
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"cannot read {folder / 'curves.npz'}: {error}") from None
