"""The published results of an algorithm or on a task, as tables; pictures of an algorithm's curves."""

import functools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import md
import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "tools"))
from figures import FIGURES, Figure
from result_file import FOLDER, Result, path_of, read

from purerl import stats
from purerl.catalog.environments import ENVIRONMENTS
from purerl.reporting import plot

ROOT = FOLDER.parent
COLUMNS = 3  # of panels in a picture
RETURNS = (
    "The return is the interquartile mean over seeds of 128 greedy episodes each, at the end of training; an interval "
    "needs five seeds."
)


@functools.cache
def results() -> dict[tuple[str, str], Result]:
    """Return all published results of our own, by task and label."""
    own = [figure for figure in FIGURES if not figure.peer and path_of(figure.task, figure.label).exists()]
    return {(figure.task, figure.label): read(path_of(figure.task, figure.label)) for figure in own}


def figures_of(algorithm: str = "", task: str = "") -> list[Figure]:
    """Return the figures with a result: of an algorithm, or of a task."""
    there = [figure for figure in FIGURES if (figure.task, figure.label) in results() and not figure.peer]
    return [f for f in there if algorithm in ("", f.algorithm) and task in ("", f.task)]


def of_algorithm(name: str, folder: str = "../") -> str:
    """Return the table of an algorithm's results, or a sentence that there are none."""
    figures = figures_of(algorithm=name)
    if not figures:
        return "No results are published for it yet."
    rows = [(_task(f, folder), *_numbers(f), _time(results()[f.task, f.label])) for f in figures]
    example = figures[0]
    again = f"results/{example.task.replace('/', '-')}/{example.label}.csv"
    head = md.table(("task", "steps", "seeds", "return", "95% interval", "published elsewhere", "time"), rows)
    return (
        f"{head}\n\n{RETURNS} The time is that of all seeds together, compilation included. To train the first row "
        f"again:\n\n    purerl train --config {again}\n\n"
        "The file of each row holds its settings, its commit and its device."
    )


def of_task(task: str, folder: str = "../algorithms/") -> str:
    """Return the table of the results on a task, with random play in the last row; "" where there are none."""
    figures = figures_of(task=task)
    if not figures:
        return ""
    rows = [(f"[{f.label}]({folder}{f.algorithm}.md)", *_numbers(f)) for f in figures]
    if (random := path_of(task, "random")).exists():
        played = read(random)
        rows.append(("random policy", "0", *_returns(played.final()), ""))
    return md.table(("algorithm", "steps", "seeds", "return", "95% interval", "published elsewhere"), rows)


def _task(figure: Figure, folder: str) -> str:
    variant = f" ({figure.variant})" if figure.variant else ""
    where = f"[{figure.task}]({folder}environments/{figure.task}.md)" if figure.task in ENVIRONMENTS else figure.task
    return where + variant


def _numbers(figure: Figure) -> tuple[str, ...]:
    result = results()[figure.task, figure.label]
    reference = figure.published.replace("+-", "±") if figure.reference else ""
    return (f"{result.made['frames']:,}", *_returns(result.final()), reference)


def _returns(final: np.ndarray) -> tuple[str, str, str]:
    if len(final) < plot.ENOUGH_SEEDS:
        return str(len(final)), short(stats.iqm(final)), ""
    low, high = stats.bootstrap_interval(jax.random.key(0), final)
    return str(len(final)), short(stats.iqm(final)), f"{short(low)} to {short(high)}"


def _time(result: Result) -> str:
    seconds, device = result.made.get("seconds"), str(result.made.get("device", ""))
    if seconds is None:
        return ""
    spent = (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
    return spent if device.startswith("cpu") else f"{spent}, {device.partition(' ')[2]}"


def short(value: Any) -> str:
    """Return a return to three digits or so."""
    return f"{float(value):.1f}" if abs(value) >= 10 else f"{float(value):.2f}"


def draw(name: str, path: Path) -> bool:
    """Draw an algorithm's curves, a panel per task, unless they are new enough; return whether there are any."""
    figures = [f for f in figures_of(algorithm=name) if not f.variant]
    if not figures:
        return False
    newest = max(path_of(f.task, f.label).stat().st_mtime for f in figures)
    if path.exists() and path.stat().st_mtime > max(newest, Path(__file__).stat().st_mtime):
        return True
    rows, columns = math.ceil(len(figures) / COLUMNS), min(COLUMNS, len(figures))
    picture = plot.new_figure(3.4 * columns, 2.5 * rows)
    for number, figure in enumerate(figures, start=1):
        _panel(picture.add_subplot(rows, columns, number), figure)
    path.parent.mkdir(exist_ok=True)
    plot.save(picture, path)
    return True


def _panel(axes: Any, figure: Figure) -> None:
    """Draw the greedy returns as a thick line with their interval, those of training as a thin one."""
    columns = results()[figure.task, figure.label].columns
    color = plot.color_of(figure.algorithm)
    for column, width, strength in (("episode_return", plot.THIN, 0.5), ("evaluation_return", plot.THICK, 1.0)):
        steps, curves = _curves(columns, column)
        if not len(steps):
            continue
        center, low, high, _ = plot.center_and_interval(curves)
        axes.plot(steps, center, color=color, linewidth=width, alpha=strength)
        if column == "evaluation_return" and len(curves) >= plot.ENOUGH_SEEDS:
            axes.fill_between(steps, low, high, color=color, alpha=0.2, linewidth=0)
    if (random := path_of(figure.task, "random")).exists():
        axes.axhline(float(read(random).final().mean()), color="gray", linestyle=":", linewidth=1)
    if figure.reference:
        axes.axhline(figure.level, color="black", linestyle="--", linewidth=1)
    axes.set_title(figure.task, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g}M" if x >= 1e6 else f"{x / 1e3:g}k")
    axes.grid(alpha=0.2)


def _curves(columns: dict[str, np.ndarray], column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (the steps that all seeds have f64[points], a column there f64[seeds, points])."""
    seeds, known = np.unique(columns["seed"]), ~np.isnan(columns[column])
    each = [
        (columns["env_steps"][at], columns[column][at]) for seed in seeds for at in [known & (columns["seed"] == seed)]
    ]
    steps = functools.reduce(np.intersect1d, [steps for steps, _ in each])
    return steps, np.array([values[np.isin(there, steps)] for there, values in each])


def configs(algorithm: str = "", task: str = "") -> Sequence[tuple[str, str]]:
    """Return the (algorithm, task) pairs that have tuned settings in `configs/`."""
    found = [(path.parent.name, _known(path.stem)) for path in sorted((ROOT / "configs").glob("*/*.toml"))]
    return [(a, t) for a, t in found if algorithm in ("", a) and task in ("", t)]


def _known(stem: str) -> str:
    return stem if stem in ENVIRONMENTS else stem.replace("-", "/", 1)
