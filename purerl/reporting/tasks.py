"""Compares algorithms over several tasks: scores on one scale, their aggregates, profiles and pictures.

Source: Agarwal et al. (2021), "Deep reinforcement learning at the edge of the statistical precipice", arXiv:2108.13264.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from purerl.errors import InputError, path_given, told
from purerl.functional import statistics
from purerl.reporting import compare, plot
from purerl.reporting.intervals import ENOUGH_SEEDS
from purerl.settings import toml

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THRESHOLDS = np.linspace(0.0, 1.0, 101)


class TaskScores(NamedTuple):
    """Final returns of several algorithms on the same tasks, brought to one scale."""

    tasks: tuple[str, ...]
    scores: dict[str, np.ndarray]  # by algorithm f64[seeds, tasks]: 0 is the lower end of the task's scale, 1 the upper
    scale: dict[str, tuple[float, float]]  # by task, the returns that are 0 and 1


class Aggregate(NamedTuple):
    """An algorithm over all tasks; intervals are None below five seeds."""

    iqm: float
    interval: tuple[float, float] | None
    median: float
    mean: float


def load(folders: Sequence[str | Path], scale: Mapping[str, tuple[float, float]] | None = None) -> TaskScores:
    """Return the scores of finished runs, one run of each algorithm on each task.

    Args:
      folders: the runs'. An algorithm is named as in its run.
      scale: by task the returns that count as 0 and 1, such as those of random and of human play; for a task that is
        not named the worst and the best of all these runs.

    Raises:
      InputError: if an algorithm has no run for a task or two, another number of seeds on one, or a folder holds no
        finished run.
    """
    if isinstance(folders, str | Path) or not isinstance(folders, Sequence) or not folders:
        raise InputError(f"folders is {told(folders)}; it must be a list of the folders of runs")
    if not isinstance(scale, Mapping | None):
        raise InputError(f"scale is {told(scale)}; it must be a dict from a task to its two returns")
    runs: dict[tuple[str, str], compare.ComparedRun] = {}
    for folder in (path_given(folder, "a folder") for folder in folders):
        run = compare.load(folder)
        algorithm = str(toml.read(folder / toml.RUN.file).get("algorithm", ""))
        if (algorithm, run.task) in runs:
            raise InputError(f"{algorithm} has two runs on {run.task}; give one for each task")
        runs[algorithm, run.task] = run
    algorithms, tasks = (tuple(dict.fromkeys(key[i] for key in runs)) for i in (0, 1))
    for algorithm in algorithms:
        for task in tasks:
            if (algorithm, task) not in runs:
                raise InputError(f"{algorithm} has no run on {task}, but another algorithm has one")
        counts = {task: len(runs[algorithm, task].returns) for task in tasks}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{count} on {task}" for task, count in counts.items())
            raise InputError(f"{algorithm} has different numbers of seeds on its tasks: {listed}")
    for task in tasks:  # a seed that failed counts as the worst of any run of the task
        worst = min(compare.worst_of(runs[name, task]) for name in algorithms)
        runs |= {(name, task): compare.failed_as(runs[name, task], worst) for name in algorithms}
    ends = {task: _ends(task, [runs[name, task] for name in algorithms], (scale or {}).get(task)) for task in tasks}
    scores = {
        name: np.stack([(runs[name, task].returns - ends[task][0]) / np.ptp(ends[task]) for task in tasks], axis=1)
        for name in algorithms
    }
    return TaskScores(tasks=tasks, scores=scores, scale=ends)


def _ends(task: str, runs: Sequence[compare.ComparedRun], given: tuple[float, float] | None) -> tuple[float, float]:
    returns = np.concatenate([run.returns for run in runs])
    low, high = (float(returns.min()), float(returns.max())) if given is None else map(float, given)
    if not low < high:
        what = "all returns are equal" if given is None else f"the scale is {low:g} .. {high:g}"
        raise InputError(f"{task} has no scale: {what}")
    return low, high


def aggregate(scores: np.ndarray) -> Aggregate:
    """Return the aggregates of f64[seeds, tasks]."""
    interval = None
    if len(scores) >= ENOUGH_SEEDS:
        low, high = statistics.bootstrap_interval(jax.random.key(compare.KEY), scores)
        interval = float(low), float(high)
    values = (float(statistic(scores)) for statistic in (statistics.iqm, statistics.median, statistics.mean))
    iqm, median, mean = values
    return Aggregate(iqm=iqm, interval=interval, median=median, mean=mean)


def ranked(found: TaskScores) -> list[tuple[str, Aggregate]]:
    """Return (algorithm, aggregate), the highest IQM first."""
    return sorted(((name, aggregate(scores)) for name, scores in found.scores.items()), key=lambda row: -row[1].iqm)


def improvement(found: TaskScores, better: str, worse: str) -> tuple[float, tuple[float, float] | None]:
    """Return the probability that a seed of one algorithm beats one of another, over the tasks, and its interval."""
    a, b = found.scores[better], found.scores[worse]
    chance = statistics.probability_of_improvement
    value = float(chance(a, b))
    if min(len(a), len(b)) < ENOUGH_SEEDS:
        return value, None
    low, high = statistics.bootstrap_interval(
        jax.random.key(compare.KEY), a, b, statistic=statistics.probability_of_improvement
    )
    return value, (float(low), float(high))


def table(found: TaskScores) -> list[tuple[str, ...]]:
    """Return for each algorithm: name, seeds, IQM, its interval, median, mean, P(the first is better)."""
    rows, order = [], ranked(found)
    for name, of in order:
        beaten = "-" if name == order[0][0] else _with_interval(*improvement(found, order[0][0], name), "{:.0%}")
        interval = f"{of.interval[0]:.3f} .. {of.interval[1]:.3f}" if of.interval else "-"
        seeds = str(len(found.scores[name]))
        rows.append((name, seeds, f"{of.iqm:.3f}", interval, f"{of.median:.3f}", f"{of.mean:.3f}", beaten))
    return rows


def _with_interval(value: float, interval: tuple[float, float] | None, form: str) -> str:
    ends = f" ({form.format(interval[0])} .. {form.format(interval[1])})" if interval else ""
    return form.format(value) + ends


def draw(found: TaskScores, path: Path) -> None:
    """Draw aggregates with intervals, performance profiles, and probabilities of improvement.

    Raises:
      InputError: if it cannot be written.
    """
    figure = plot.new_figure(13, 4.2)
    aggregates, profiles, improvements = figure.subplots(1, 3, width_ratios=(3, 4, 3))
    order = ranked(found)
    for i, (name, of) in enumerate(order):
        color, row = f"C{i % 10}", len(order) - 1 - i
        if of.interval:
            aggregates.plot(of.interval, (row, row), color=color, linewidth=6, alpha=0.5)
        aggregates.plot(of.iqm, row, "|", color=color, markersize=16, markeredgewidth=2.5)
        _profile(profiles, found.scores[name], name, color)
        if i:
            value, interval = improvement(found, order[0][0], name)
            if interval:
                improvements.plot(interval, (row, row), color=color, linewidth=6, alpha=0.5)
            improvements.plot(value, row, "|", color=color, markersize=16, markeredgewidth=2.5)
    names = [plot.literal(name) for name, _ in reversed(order)]
    for axes in (aggregates, improvements):
        axes.set_yticks(range(len(order)), names)
        axes.set_ylim(-0.6, len(order) - 0.4)
    aggregates.set_xlabel("IQM of normalized returns")
    profiles.set_xlabel("normalized return")
    profiles.set_ylabel("share of runs above it")
    profiles.legend(frameon=False, loc="best")
    improvements.set_xlabel(f"P({plot.literal(order[0][0])} > row)")
    improvements.set_xlim(0.0, 1.0)
    improvements.axvline(0.5, color="0.7", linewidth=0.8, linestyle="--")
    for axes in (aggregates, profiles, improvements):
        plot.tidy(axes)
    figure.suptitle(f"{len(found.tasks)} tasks", fontsize="medium")
    plot.save(figure, path)


def _profile(axes: "Axes", scores: np.ndarray, name: str, color: str) -> None:
    share = lambda scores: statistics.performance_profile(scores, THRESHOLDS)
    axes.plot(THRESHOLDS, np.asarray(share(scores)), color=color, label=plot.literal(name))
    if len(scores) >= ENOUGH_SEEDS:
        low, high = statistics.bootstrap_interval(jax.random.key(compare.KEY), scores, statistic=share, resamples=500)
        axes.fill_between(THRESHOLDS, np.asarray(low), np.asarray(high), color=color, alpha=0.2, linewidth=0)
