"""A run's result in numbers: summary.json, computed from its metrics."""

import contextlib
import importlib.metadata
import json
import math
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from purerl.catalog.version import VERSION
from purerl.errors import InputError
from purerl.functional import statistics
from purerl.reporting.files import write_whole
from purerl.reporting.intervals import ENOUGH_SEEDS
from purerl.settings import toml
from purerl.settings.runs import Settings
from purerl.trust import reading


def summarize(run: Settings, columns: dict[str, np.ndarray], last_update: int) -> dict[str, Any]:
    """Return final and best evaluation returns, per seed and over the seeds.

    A seed that failed counts as the worst: with the lowest mean return that any seed ever had.

    Args:
      run: the settings.
      columns: from `metrics_csv.read`.
      last_update: the last update of the whole run; a seed without a row there did not finish.
    """
    worst = lowest(columns)
    seeds = list(range(run.options.seed, run.options.seed + run.options.seeds))
    final, best = [], []
    for seed in seeds:
        of_seed = columns["seed"] == seed
        at_end = columns["evaluation_return"][of_seed & (columns["update"] == last_update)]
        evaluations = columns["evaluation_return"][of_seed & ~np.isnan(columns["evaluation_return"])]
        final.append(float(at_end[0]) if at_end.size else math.nan)
        best.append(float(evaluations.max()) if evaluations.size else math.nan)
    return {
        "format": toml.FORMAT,
        "algorithm": run.algorithm,
        "environment": run.environment,
        "seeds": seeds,
        "env_steps": int(columns["env_steps"].max()),
        "episodes_per_final_evaluation": run.options.eval_episodes,
        "final_return": over_seeds(final, worst),
        "best_return": over_seeds(best, worst),
    }


def lowest(columns: dict[str, np.ndarray]) -> float:
    """Return the lowest mean return in training or evaluation of any seed; NaN if no episode ended."""
    returns = np.concatenate([columns[name] for name in ("episode_return", "evaluation_return") if name in columns])
    known = returns[np.isfinite(returns)]
    return float(known.min()) if known.size else math.nan


def over_seeds(values: list[float], worst: float = math.nan) -> dict[str, object]:
    """Return per-seed numbers with their mean, interquartile mean, its 95% interval and their range.

    The interval is None below `ENOUGH_SEEDS` seeds, where it would be hardly more than the range, which is None
    below two.

    Args:
      values: the values of each seed, NaN where it failed.
      worst: what a failed seed counts as in the mean, the interquartile mean and the interval.
    """
    failed = [not math.isfinite(value) for value in values]
    counted = np.array([worst if bad else value for value, bad in zip(values, failed, strict=True)])
    known = counted[np.isfinite(counted)] if not all(failed) else counted[:0]
    interval = statistics.bootstrap_interval(jax.random.key(0), known) if len(known) >= ENOUGH_SEEDS else None
    ends = (known.min(), known.max()) if len(known) > 1 else None
    return {
        "per_seed": [None if bad else value for value, bad in zip(values, failed, strict=True)],
        "failed": sum(failed),
        "failed_counted_as": worst if any(failed) and math.isfinite(worst) else None,
        "mean": float(known.mean()) if len(known) else None,
        "iqm": float(statistics.iqm(known)) if len(known) else None,
        "iqm_interval_95": interval and [round(float(end), 6) for end in interval],
        "range": ends and [round(float(end), 6) for end in ends],
    }


def versions(*more: str) -> dict[str, str]:
    """Return the versions of the packages that affect the numbers, and of installed packages in `more`."""
    packages = ("jax", "jaxlib", "flax", "optax", "numpy")
    found = {package: importlib.metadata.version(package) for package in packages}
    for package in more:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return {"purerl": VERSION, "python": platform.python_version(), **found}


def write(path: Path, summary: Mapping[str, object]) -> None:
    """Write summary.json, completely or not at all."""
    write_whole(path, json.dumps(summary, indent=2, allow_nan=False) + "\n")


def read(path: Path) -> dict[str, Any]:
    """Return a run's summary.json."""
    return reading.json_object(path)


WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # what values of wrong types raise


def damaged(path: Path) -> InputError:
    """Return the error for a summary.json without a run's final return."""
    return InputError(f"{path} is damaged: it has no final_return with the returns per_seed")


def line(folder: Path) -> str:
    """Return a run's result in one line."""
    found = read(folder / "summary.json")
    try:
        return text(found)
    except WRONG:
        raise damaged(folder / "summary.json") from None


def text(found: dict[str, Any]) -> str:
    """Return the results of `summarize` and the speed in one line."""
    final = found["final_return"]
    if final["mean"] is None:
        return "no seed finished"
    speed = f"{found['env_steps_per_second']:,.0f} steps/s"
    return f"final return {center(final)}{failures(final)}, {speed}"


def center(result: dict[str, Any]) -> str:
    """Return the mean from `over_seeds` as text, with its interval or, for few seeds, its range."""
    if result["iqm_interval_95"]:
        low, high = result["iqm_interval_95"]
        return f"{result['mean']:.5g}, IQM {result['iqm']:.5g} (95% interval {low:.5g} .. {high:.5g})"
    if result.get("range"):  # files of earlier versions have none
        low, high = result["range"]
        return f"{result['mean']:.5g} (range of {len(result['per_seed'])} seeds {low:.5g} .. {high:.5g})"
    return f"{result['mean']:.5g}"


def failures(result: dict[str, Any]) -> str:
    """Return a clause about how many seeds failed and how they count; "" if none did."""
    if not result["failed"]:
        return ""
    counted = result["failed_counted_as"]
    as_what = "left out" if counted is None else f"counted as {counted:.5g}, the lowest return of the run"
    return f" ({result['failed']} of {len(result['per_seed'])} seeds failed, {as_what})"
