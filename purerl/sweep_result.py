"""What a sweep found: curves per trial and seed, one table, the best trial as settings."""

import csv
import dataclasses
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from purerl.config import dump
from purerl.errors import InputError
from purerl.lanes import with_values
from purerl.search import text
from purerl.sweep_plan import SweepPlan

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
        return Curves(env_steps, values, np.zeros((trials, num_seeds), bool), np.zeros(trials, np.int64))

    def forget(self, trials: np.ndarray) -> None:
        """Take back what these trials had reached."""
        self.trained[trials], self.episode_return[trials], self.failed[trials] = 0, np.nan, False

    def final_return(self, points: int | None = None) -> np.ndarray:
        """Return f64[trials, seeds]: the mean over the last tenth of what was trained, or of the first `points`.

        Points at which no episode ended do not count; without any it is NaN, as it is for a seed that failed.
        """
        found = np.full(self.failed.shape, np.nan)
        for trial, trained in enumerate(self.trained):
            upto = trained if points is None else min(points, trained)
            if upto:
                found[trial] = _last(self.episode_return[trial, :, :upto])
        return np.where(self.failed, np.nan, found)


def _last(values: np.ndarray) -> np.ndarray:
    """Return f64[seeds], the mean over the last tenth of [seeds, points], or the last one that is known."""
    means = []
    for curve in values.astype(np.float64):
        window = curve[-max(1, round(LAST * curve.size)) :]
        known = window[~np.isnan(window)]
        known = known if known.size else curve[~np.isnan(curve)][-1:]
        means.append(known.mean() if known.size else np.nan)
    return np.array(means)


@dataclasses.dataclass(frozen=True)
class SweepResult:
    """A sweep's outcome: `rows()` is a row per trial and seed, in the order of the trials."""

    plan: SweepPlan
    curves: Curves
    values: list[list[dict[str, Any]]]  # [trials][seeds], what was searched; pbt changes it on the way
    lineage: list[dict[str, Any]]  # of pbt: who descends from whom
    folder: Path | None

    def rows(self) -> list[dict[str, Any]]:
        """Return the table: a row per trial and seed that was trained at all."""
        final = self.curves.final_return()
        with np.errstate(all="ignore"):
            means = np.array([[_mean(curve) for curve in trial] for trial in self.curves.episode_return])
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
        return float(self.curves.final_return()[trial, seed] if self.lineage else self.scores()[trial])

    def _best(self) -> tuple[int, int]:
        scores = self.curves.final_return() if self.lineage else self.scores()[:, None]
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
        rows = self.rows()
        file = io.StringIO()
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["trial"], lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: text(value) for name, value in row.items()} for row in rows)
        return file.getvalue()

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
        """Write trials.csv and best.toml, and lineage.csv of a population, each whole or not at all."""
        if self.folder is None:
            return
        write_whole(self.folder / "trials.csv", lambda path: path.write_text(self.to_csv(), encoding="utf-8"))
        write_whole(self.folder / "best.toml", lambda path: path.write_text(self.best_toml(), encoding="utf-8"))


def _mean(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean(dtype=np.float64)) if known.size else float("nan")


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file so that it appears under its name only when it is complete."""
    part = path.with_name(f"{path.stem}.part{path.suffix}")
    write(part)
    os.replace(part, path)


def load_curves(folder: Path) -> tuple[Curves, dict[str, np.ndarray]]:
    """Return the curves of a sweep's folder, and what else is in the file.

    Raises:
      InputError: if there are none.
    """
    try:
        with np.load(folder / "curves.npz", allow_pickle=False) as file:
            arrays = dict(file)
        return Curves(*(arrays.pop(name) for name in Curves._fields)), arrays
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"cannot read {folder / 'curves.npz'}: {error}") from None
