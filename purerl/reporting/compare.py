"""Compares the final returns of several runs, as far as their numbers of seeds allow."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from purerl.errors import InputError
from purerl.functional import statistics
from purerl.reporting import metrics_csv, plot, summary
from purerl.reporting.files import short_names
from purerl.reporting.intervals import ENOUGH_SEEDS, stand_ins
from purerl.settings import toml
from purerl.settings.values import to_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEY = 0
MOST = 2000  # seeds that intervals are computed of


class ComparedRun(NamedTuple):
    """A finished run."""

    name: str
    task: str
    returns: np.ndarray  # f64[seeds], final evaluations; the seeds that failed come last and count as the worst
    failed: int  # seeds
    columns: dict[str, np.ndarray]  # columns of metrics.csv
    parameters: Mapping[str, Any]  # the environment's parameters, as its settings name them
    algorithm: str = ""

    @property
    def center(self) -> float:
        """The interquartile mean; for fewer than four seeds the mean."""
        return float(statistics.iqm(self.returns))

    @property
    def known(self) -> np.ndarray:
        """The returns that are known; for more than `MOST`, that many representative ones."""
        return stand_ins(np.sort(self.returns), MOST) if len(self.returns) > MOST else self.returns

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of the center; None for too few seeds."""
        if len(self.returns) < ENOUGH_SEEDS:
            return None
        low, high = statistics.bootstrap_interval(jax.random.key(KEY), self.known)
        return float(low), float(high)


class Duel(NamedTuple):
    """A comparison of two runs; intervals are 95% intervals."""

    better: ComparedRun
    worse: ComparedRun
    difference: float  # difference of the interquartile means
    difference_interval: tuple[float, float]
    probability: float  # that a seed of `better` beats one of `worse`
    probability_interval: tuple[float, float]
    seeds_needed: float  # seeds of each, to distinguish their means with a power of 80%

    @property
    def certain(self) -> bool:
        """Whether there are enough seeds and the interval of the difference excludes 0."""
        few = min(len(self.better.returns), len(self.worse.returns)) < ENOUGH_SEEDS
        return not few and not self.difference_interval[0] <= 0.0 <= self.difference_interval[1]


def load(folder: Path) -> ComparedRun:
    """Return a run from its folder.

    Raises:
      InputError: if it is not a finished run, or no seed finished.
    """
    if not os.path.lexists(folder / "config.toml"):
        raise InputError(f"there is no run in {folder}")
    if not os.path.lexists(folder / "summary.json"):
        raise InputError(f"{folder} has no summary.json yet: its run has not finished")
    found = summary.read(folder / "summary.json")
    try:
        per_seed = [np.nan if value is None else value for value in found["final_return"]["per_seed"]]
        returns = np.array(per_seed, np.float64)
    except summary.WRONG:
        raise summary.damaged(folder / "summary.json") from None
    if returns.ndim != 1 or np.isinf(returns).any():
        raise summary.damaged(folder / "summary.json")
    failed = int(np.isnan(returns).sum())
    if failed == returns.size:
        raise InputError(f"no seed of {folder} finished")
    settings = toml.read(folder / "config.toml")
    run = ComparedRun(
        name=folder.name,
        task=str(settings.get("environment", "")),
        returns=np.sort(returns),
        failed=failed,
        columns=metrics_csv.read(folder / "metrics.csv"),
        parameters=toml.table(settings, "env", folder / "config.toml"),
        algorithm=str(settings.get("algorithm", "")),
    )
    return failed_as(run, worst_of(run))


def worst_of(run: ComparedRun) -> float:
    """Return the lowest return in a run's history."""
    return float(np.nanmin([*run.returns, summary.lowest(run.columns)]))


def failed_as(run: ComparedRun, worst: float) -> ComparedRun:
    """Return a run in which failed seeds have this return."""
    finished = run.returns[: len(run.returns) - run.failed]
    return run._replace(returns=np.concatenate([finished, np.full(run.failed, worst)]))


def duel(a: ComparedRun, b: ComparedRun) -> Duel | None:
    """Compare two runs; None if one of them has a single seed, which allows no comparison."""
    better, worse = (a, b) if a.center >= b.center else (b, a)
    x, y = better.known, worse.known
    if min(len(x), len(y)) < 2:
        return None
    interval = lambda statistic: statistics.bootstrap_interval(jax.random.key(KEY), x, y, statistic=statistic)
    low, high = interval(_gap)
    low_p, high_p = interval(statistics.probability_of_improvement)
    return Duel(
        better=better,
        worse=worse,
        difference=better.center - worse.center,
        difference_interval=(float(low), float(high)),
        probability=float(statistics.probability_of_improvement(x, y)),
        probability_interval=(float(low_p), float(high_p)),
        seeds_needed=float(statistics.seeds_needed(x, y)),
    )


_gap = partial(statistics.difference, statistic=statistics.iqm)


def verdict(found: Duel | None, a: ComparedRun, b: ComparedRun) -> str:
    """Return a sentence: which run wins, by how much, and with what certainty."""
    if found is None:
        one = min(a, b, key=lambda run: len(run.returns))
        return f"{a.name} and {b.name}: {one.name} has one seed, so nothing can be said; train with --seeds 10"
    low, high = found.difference_interval
    few = min(len(a.returns), len(b.returns))
    interval = f" (95% interval {low:.4g} .. {high:.4g})" if few >= ENOUGH_SEEDS else ""
    by = f"by {found.difference:.4g}{interval}"
    chance = f"one of its seeds wins with probability {found.probability:.0%}"
    if found.certain:
        return f"{found.better.name} beats {found.worse.name} {by}; {chance}"
    needed = ""
    if not np.isinf(found.seeds_needed):
        needed = f"; about {max(found.seeds_needed, ENOUGH_SEEDS):.0f} seeds each would be enough"
    if few < ENOUGH_SEEDS:
        few_seeds = f"too few seeds ({few}; at least {ENOUGH_SEEDS} are needed) to say that"
        return f"{few_seeds} {found.better.name} beats {found.worse.name} {by}{needed}"
    return f"{found.better.name} and {found.worse.name} cannot be told apart: the first leads {by}{needed}"


def rank(folders: Sequence[Path]) -> list[ComparedRun]:
    """Return the runs, best first; a failed seed counts as the lowest return of any run.

    Raises:
      InputError: if they are on different tasks, or one cannot be read.
    """
    runs = [load(folder) for folder in folders]
    for run in runs[1:]:
        if run.task != runs[0].task:
            raise InputError(
                f"{run.name} is on {run.task}, {runs[0].name} on {runs[0].task}: their returns are not comparable"
            )
    runs = [run._replace(name=name) for run, name in zip(runs, short_names(folders), strict=True)]
    worst = min(worst_of(run) for run in runs)
    return sorted((failed_as(run, worst) for run in runs), key=lambda run: -run.center)


def other_tasks(runs: Sequence[ComparedRun]) -> str:
    """Return a line about the environment parameters in which the runs differ; "" if there are none."""
    names = sorted({name for run in runs for name in run.parameters})
    texts = {name: [to_text(run.parameters.get(name, "default")) for run in runs] for name in names}
    told = [f"env.{name} {' / '.join(found)}" for name, found in texts.items() if len(set(found)) > 1]
    return f"the runs are on different tasks: {', '.join(told)}" if told else ""


def table(runs: Sequence[ComparedRun]) -> list[tuple[str, ...]]:
    """Return for each run: name, seeds, IQM, its interval, mean, worst and best seed, area under the curve."""
    rows = []
    for run in runs:
        ends = run.interval
        seeds = f"{len(run.returns)}, {run.failed} failed" if run.failed else str(len(run.returns))
        cells = [run.name, seeds, f"{run.center:.5g}"]
        cells += [f"{ends[0]:.5g} .. {ends[1]:.5g}" if ends else "-", f"{run.returns.mean():.5g}"]
        rows.append((*cells, f"{run.returns.min():.5g} .. {run.returns.max():.5g}", f"{area(run):.5g}"))
    return rows


def area(run: ComparedRun) -> float:
    """Return the mean height of the training curves, averaged over the seeds; NaN without a curve."""
    curves = [pair for pair in metrics_csv.by_seed(run.columns, "episode_return").values() if len(pair[0]) > 1]
    return float(np.mean([statistics.area_under_curve(x, y) for x, y in curves])) if curves else float("nan")


def draw(runs: Sequence[ComparedRun], path: Path) -> None:
    """Draw learning curves, and each run's final returns with the interval of their center.

    Raises:
      InputError: if it cannot be written.
    """
    figure = plot.new_figure(11, 4.8)
    curves, finals = figure.subplots(1, 2, width_ratios=(3, 2))
    styles = plot.styles([run.algorithm for run in runs])
    for i, (run, style) in enumerate(zip(runs, styles, strict=True)):
        plot.curve(curves, run.columns, style, run.name)
        _final(finals, run, len(runs) - 1 - i, style.color)
    plot.label_curves(curves)
    curves.legend(frameon=False, loc="best")
    curves.set_title(plot.literal(runs[0].task))
    finals.set_yticks(range(len(runs)), [plot.literal(run.name) for run in reversed(runs)])
    finals.set_ylim(-0.6, len(runs) - 0.4)
    finals.set_xlabel("final return: seeds, IQM and its 95% interval")
    plot.tidy(finals)
    plot.save(figure, path)


def _final(axes: "Axes", run: ComparedRun, row: int, color: str) -> None:
    axes.plot(run.returns, np.full(len(run.returns), row), "o", color=color, alpha=0.35, markersize=5)
    if run.interval:
        axes.plot(run.interval, (row, row), color=color, linewidth=3)
    axes.plot(run.center, row, "D", color=color, markersize=8, markeredgecolor="white")
