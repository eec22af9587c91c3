"""Pictures of a sweep: curves of the best trials, sensitivity to the searched settings, parallel coordinates."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from purerl.reporting.plot import center_and_interval, label_curves, literal, new_figure, save, tidy
from purerl.settings.ranges import Choices, Dimension, Range
from purerl.settings.values import to_text
from purerl.sweeps.result import Entrants, SweepResult, mean_known

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BEST = 5  # curves in color
MOST_DIMENSIONS = 24  # dimensions of a search in a picture, at most: the first ones


def plot_sweep(result: SweepResult) -> list[Path]:
    """Write curves.png, sensitivity.png and parallel.png into the sweep's folder; return their paths."""
    assert result.folder is not None
    pictures = {"curves": curves, "sensitivity": sensitivity, "parallel": parallel}
    paths = [result.folder / f"{name}.png" for name in pictures]
    for draw, path in zip(pictures.values(), paths, strict=True):
        save(draw(result), path)
    return paths


def curves(result: SweepResult) -> "Figure":
    """Return the figure of all trials' curves, the best ones in color with a band over seeds."""
    figure = new_figure(8, 4.8)
    axes = figure.add_subplot()
    values, scores, found = result.entrants()
    order = [int(i) for i in np.argsort(-np.where(np.isnan(scores), -np.inf, scores), kind="stable")]
    best = [i for i in order if not np.isnan(scores[i])][:BEST]
    for trial in order:
        upto = found.trained[trial]
        if trial not in best and upto:
            axes.plot(
                found.env_steps[trial, :upto],
                mean_known(found.episode_return[trial, :, :upto], 0),
                color="0.75",
                linewidth=0.6,
            )
    for rank, trial in reversed(list(enumerate(best))):
        center, low, high, _ = center_and_interval(found.episode_return[trial].astype(np.float64))
        label = f"{scores[trial]:.4g}: {_label(values[trial])}"
        axes.plot(found.env_steps[trial], center, color=f"C{rank}", linewidth=1.8, label=literal(label), zorder=3)
        axes.fill_between(found.env_steps[trial], low, high, color=f"C{rank}", alpha=0.15, linewidth=0, zorder=2)
    others = len(order) - len(best)
    and_others = f", and {others} others in grey" if others else ""
    axes.set_title(literal(_title(result), f": the best {len(best)}{and_others}"))
    label_curves(axes)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], frameon=False, loc="best", fontsize="small")
    return figure


def sensitivity(result: SweepResult) -> "Figure":
    """Return the figure of final returns over each searched setting, one panel each."""
    entrants = result.entrants()
    stopped = _stopped(entrants)
    names = list(result.plan.dimensions)[:MOST_DIMENSIONS]
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure = new_figure(1 + 3.4 * columns, 0.6 + 2.9 * lines)
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True).ravel()
    for axes, name in zip(grid, names, strict=False):
        dimension = result.plan.dimensions[name]
        places = np.array([_place(dimension, row[name]) for row in entrants.values])
        axes.scatter(places, stopped, s=18, alpha=0.6, color="0.7", linewidth=0)
        axes.scatter(places, entrants.scores, s=18, alpha=0.6, color="C0", linewidth=0)
        if (best := entrants.best) is not None:
            axes.scatter(places[best], entrants.scores[best], s=60, facecolor="none", edgecolor="C3", linewidth=1.5)
        _trend(axes, dimension, places, entrants.scores)
        axes.set_xlabel(literal(name))
        _ticks(axes, dimension)
        tidy(axes)
    for axes in grid[len(names) :]:
        axes.set_visible(False)
    for axes in grid[::columns]:
        axes.set_ylabel(literal(_final(result)))
    grey = "" if np.isnan(stopped).all() else ", grey: stopped early"
    title = literal(_title(result), f": what matters (best circled, line: mean of neighbors{grey})")
    figure.suptitle(title, fontsize="medium")
    return figure


def parallel(result: SweepResult) -> "Figure":
    """Return the figure of parallel coordinates: a line per trial through its values, colored by its return."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    values, scores, found = result.entrants()
    shown = np.flatnonzero(found.trained)
    rows, scores = [values[i] for i in shown], scores[shown]
    names = list(result.plan.dimensions)[:MOST_DIMENSIONS]
    known = scores[~np.isnan(scores)]
    norm = Normalize(*((known.min(), known.max()) if known.size else (0.0, 1.0)))
    figure = new_figure(2.5 + 1.7 * len(names), 4.5)
    axes = figure.add_subplot()
    heights = np.array([[_height(result.plan.dimensions[name], row[name]) for name in names] for row in rows])
    heights = np.column_stack([heights, norm(np.nan_to_num(scores, nan=norm.vmin or 0.0))])
    for i in np.argsort(np.where(np.isnan(scores), -np.inf, scores), kind="stable"):  # the best on top
        color = "0.8" if np.isnan(scores[i]) else colormaps["viridis"](norm(scores[i]))
        axes.plot(range(len(names) + 1), heights[i], color=color, linewidth=1.2, alpha=0.8)
    for x, name in enumerate([*names, _final(result)]):
        axes.axvline(x, color="0.3", linewidth=0.8)
        returns = [(0.0, f"{norm.vmin:.4g}"), (1.0, f"{norm.vmax:.4g}")]
        for height, label in _ends(result.plan.dimensions[name]) if x < len(names) else returns:
            box = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.8}
            axes.text(x, height, f" {literal(label)}", fontsize="small", va="center", bbox=box)
    axes.set_xticks(range(len(names) + 1), [*map(literal, [*names, _final(result)])])
    axes.set_yticks([])
    axes.set_ylim(-0.08, 1.08)
    axes.set_xlim(-0.15, len(names) + 0.45)
    axes.spines[:].set_visible(False)
    axes.set_title(literal(_title(result)))
    figure.colorbar(ScalarMappable(norm, "viridis"), ax=axes, label=literal(_final(result)), pad=0.01)
    return figure


def _stopped(entrants: Entrants) -> np.ndarray:
    """Return the last returns of trials that were stopped early, f64[n]; NaN for the others."""
    reached = entrants.curves.final_return().mean(axis=1)
    return np.where(np.isnan(entrants.scores), reached, np.nan)


def _place(dimension: Dimension, value: Any) -> float:
    return float(value) if isinstance(dimension, Range) else float(dimension.values.index(value))


def _height(dimension: Dimension, value: Any) -> float:
    if isinstance(dimension, Range):
        return float(dimension.position(value))
    return dimension.values.index(value) / max(1, len(dimension.values) - 1)


def _ends(dimension: Dimension) -> list[tuple[float, str]]:
    values = dimension.values if isinstance(dimension, Choices) else (dimension.low, dimension.high)
    return [
        (_height(dimension, value), f"{value:g}" if isinstance(value, float) else to_text(value)) for value in values
    ]


def _ticks(axes: "Axes", dimension: Dimension) -> None:
    from matplotlib.ticker import NullFormatter

    if isinstance(dimension, Choices):
        axes.set_xticks(range(len(dimension.values)), [literal(to_text(value)) for value in dimension.values])
        axes.set_xlim(-0.5, len(dimension.values) - 0.5)
        return
    if dimension.log:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(dimension.low, dimension.high)


def _trend(axes: "Axes", dimension: Dimension, places: np.ndarray, scores: np.ndarray) -> None:
    """Draw the mean over neighbors along a range, or over each listed value."""
    known = ~np.isnan(scores)
    places, scores = places[known], scores[known]
    if isinstance(dimension, Choices):
        for place in np.unique(places):
            mean = scores[places == place].mean()
            axes.plot([place - 0.25, place + 0.25], [mean, mean], color="C1", linewidth=2)
        return
    if len(scores) < 8:
        return
    order = np.argsort(places)
    width = max(3, len(scores) // 6)
    window = np.ones(width) / width
    x = np.array([dimension.position(place) for place in places[order]])
    middle = np.convolve(x, window, "valid")
    axes.plot(dimension.at(middle), np.convolve(scores[order], window, "valid"), color="C1", linewidth=1.8)


def _label(values: Mapping[str, object]) -> str:
    texts = (f"{value:.3g}" if isinstance(value, float) else to_text(value) for value in values.values())
    return ", ".join(f"{name} {value}" for name, value in zip(values, texts, strict=True))


def _final(result: SweepResult) -> str:
    return f"final {'-' if result.plan.sign < 0 else ''}{result.plan.measure}"


def _title(result: SweepResult) -> str:
    run = result.plan.settings
    return f"{run.algorithm.upper()} on {run.environment}"
