"""The charts at the top of the results page: our results next to published ones, and algorithms by tasks."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from figures import FIGURES, Figure
from result_file import FOLDER, Result, path_of, read

from purerl import stats
from purerl.catalog.algorithms import ALGORITHMS
from purerl.reporting import plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

MOST = 3.0  # the right end of the first chart; a value beyond it is written
LEAST_ALGORITHMS = 2  # algorithms per task in the second chart
SUITES = ("native", "brax", "craftax", "jaxmarl", "gymnasium", "envpool")  # each has a color


class Compared(NamedTuple):
    """A result of ours next to a published return, or to a peer's own trainer that we ran."""

    figure: Figure
    ours: Result
    peer: tuple[Figure, Result] | None

    @property
    def level(self) -> float:
        """The return to compare with."""
        return float(stats.iqm(self.peer[1].final())) if self.peer else self.figure.level

    @property
    def seeds(self) -> int:
        """The number of seeds of the side that has fewer."""
        return min(len(found.final()) for found in (self.ours, *(self.peer[1:] if self.peer else ())))


class Score(NamedTuple):
    """A row of the first chart: 0 is the random policy, 1 the reference."""

    name: str
    suite: str
    value: float
    low: float | None  # without five seeds there is no interval
    high: float | None
    seeds: int


def compared(results: Path = FOLDER) -> list[Compared]:
    """Return our results that have something to be compared with, in the order of the figures."""
    there = [(f, read(path)) for f in FIGURES if (path := path_of(f.task, f.label, results)).exists()]
    peers = {(f.task, f._replace(peer="").label): (f, result) for f, result in there if f.peer}
    found = [Compared(figure=f, ours=r, peer=peers.get((f.task, f.label))) for f, r in there if not f.peer]
    return [entry for entry in found if entry.peer or entry.figure.reference]


def scores(results: Path = FOLDER) -> list[Score]:
    """Return (return - random) / (reference - random) of each comparison whose reference is above random play."""
    rows = []
    for entry in compared(results):
        figure, final = entry.figure, entry.ours.final()
        played = path_of(figure.task, "random", results)
        if not played.exists():
            continue
        random = float(read(played).final().mean())
        span = entry.level - random
        if span <= 0.02 * abs(random):  # the reference is random play
            continue
        bounds = (None, None)
        if entry.seeds >= plot.ENOUGH_SEEDS:
            bounds = tuple((float(b) - random) / span for b in stats.bootstrap_interval(jax.random.key(0), final))
        rows.append(
            Score(
                name=f"{figure.task}, {figure.label}",
                suite=figure.task.partition("/")[0] if "/" in figure.task else "native",
                value=(float(stats.iqm(final)) - random) / span,
                low=bounds[0],
                high=bounds[1],
                seeds=entry.seeds,
            )
        )
    return rows


def draw_scores(results: Path = FOLDER) -> tuple["Picture", Any]:
    """Return the first chart and its data: a dot for each comparison, hollow below five seeds."""
    rows = scores(results)
    picture = plot.new_figure(8.4, 0.2 * len(rows) + 1.0)
    axes = picture.add_subplot()
    for place, row in enumerate(rows):
        color = f"C{SUITES.index(row.suite)}"
        at = min(row.value, MOST)
        filled = row.seeds >= plot.ENOUGH_SEEDS
        if row.low is not None and row.high is not None:
            axes.plot(np.clip([row.low, row.high], 0, MOST), [place, place], color=color, linewidth=1.6)
        axes.plot(
            at, place, "o" if at < MOST else ">", color=color, markersize=6, fillstyle="full" if filled else "none"
        )
        beyond = f"{row.value:.1f}" if row.value > MOST else ""
        note = ", ".join(text for text in (beyond, "1 seed" if row.seeds == 1 else "") if text)
        if note:
            axes.annotate(note, (at, place), xytext=(7, 0), textcoords="offset points", va="center", fontsize=7)
    axes.axvline(0, color="gray", linewidth=0.9, linestyle=":")
    axes.axvline(1, color="black", linewidth=0.9)
    axes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=7.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(-0.1, MOST + 0.35)
    axes.tick_params(axis="x", labeltop=True, labelsize=8)
    axes.set_xlabel("(return - random) / (reference - random)", fontsize=9)
    plot.tidy(axes)
    for suite in dict.fromkeys(row.suite for row in rows):
        axes.plot([], [], "o", color=f"C{SUITES.index(suite)}", label=suite)
    axes.plot([], [], "o", color="gray", fillstyle="none", label="fewer than 5 seeds")
    axes.legend(frameon=False, fontsize=7.5, loc="lower right")
    return picture, [list(row) for row in rows]


def grid(results: Path = FOLDER) -> tuple[list[str], list[str], dict[tuple[str, str], tuple[float, int, float]]]:
    """Return (algorithms, tasks, (IQM, seeds, score) of each pair that has a result).

    A score is 0 for the random policy and 1 for the best algorithm of the task.
    """
    there = {
        (f.algorithm, f.task): read(path).final()
        for f in FIGURES
        if f.label == f.algorithm and "/" not in f.task and (path := path_of(f.task, f.label, results)).exists()
    }
    by_task = {task: [a for a, t in there if t == task] for task in dict.fromkeys(task for _, task in there)}
    tasks = [task for task, names in by_task.items() if len(names) >= LEAST_ALGORITHMS]
    algorithms = [name for name in ALGORITHMS if any((name, task) in there for task in tasks)]
    cells = {}
    for task in tasks:
        reached = {name: float(stats.iqm(there[name, task])) for name in by_task[task]}
        played = path_of(task, "random", results)
        random = float(read(played).final().mean()) if played.exists() else min(reached.values())
        span = max(reached.values()) - random or 1.0
        cells |= {(a, task): (value, len(there[a, task]), (value - random) / span) for a, value in reached.items()}
    return algorithms, tasks, cells


def draw_grid(results: Path = FOLDER) -> tuple["Picture", Any]:
    """Return the second chart and its data: algorithms by tasks, darker where the return is higher."""
    algorithms, tasks, cells = grid(results)
    if not tasks:
        return plot.new_figure(1, 1), []
    picture = plot.new_figure(1.6 + 0.72 * len(tasks), 1.2 + 0.23 * len(algorithms))
    axes = picture.add_subplot()
    shades = np.full((len(algorithms), len(tasks)), np.nan)
    for (algorithm, task), (value, seeds, score) in cells.items():
        row, column = algorithms.index(algorithm), tasks.index(task)
        shades[row, column] = max(score, 0.0)
        text = f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"
        few = "" if seeds >= plot.ENOUGH_SEEDS else "*"
        color = "white" if score > 0.6 else "black"
        axes.text(column, row, text + few, ha="center", va="center", fontsize=7, color=color)
    axes.imshow(shades, cmap="Blues", vmin=0, vmax=1.15, aspect="auto")
    axes.set_xticks(range(len(tasks)), tasks, rotation=40, ha="left", fontsize=7.5)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(algorithms)), algorithms, fontsize=7.5)
    axes.spines[:].set_visible(False)
    return picture, [algorithms, tasks, [[*pair, *cell] for pair, cell in cells.items()]]


CHARTS = {"against-references": draw_scores, "algorithms-by-tasks": draw_grid}


def opening(results: Path) -> list[str]:
    """Return the charts that open the page, as far as they are drawn."""
    texts = {
        "against-references": (
            "## Comparison with references",
            "Returns of purerl compared with published returns, one row per task and algorithm",
            "0 is the random policy and 1 the reference. A hollow dot has fewer than five seeds on one side and no\n"
            "interval. A line is the 95% interval of our IQM. References no better than random play are left out.",
        ),
        "algorithms-by-tasks": (
            "## All algorithms on all tasks",
            "IQM of each algorithm on each native task, darker where it is closer to the best",
            "The numbers are IQMs; a star marks fewer than five seeds. White is the random policy, dark the best\n"
            "algorithm of the task. The algorithms differ in environment steps; the tables below have them.",
        ),
    }
    there = [(name, *text) for name, text in texts.items() if (results / f"{name}.png").exists()]
    return [line for name, head, alt, said in there for line in ("", head, "", f"![{alt}]({name}.png)", "", said)]
