"""Learning curves of runs."""

import colorsys
import itertools
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from purerl.catalog.algorithms import ALGORITHMS
from purerl.errors import InputError, printable, unknown
from purerl.reporting import metrics_csv
from purerl.reporting.files import short_names, write_whole
from purerl.reporting.intervals import ENOUGH_SEEDS as ENOUGH_SEEDS
from purerl.reporting.intervals import center_and_interval, on_grid
from purerl.settings import toml

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GRID = 200  # points of a curve


class PlotView(NamedTuple):
    """The parts of a run that are plotted."""

    metric: str = "episode_return"  # a column of metrics.csv
    x: str = "steps"  # or "wall", time
    smooth: int = 1  # rows that a point is the mean of

    @property
    def column(self) -> str:
        """The column of x values."""
        return "wall_seconds" if self.x == "wall" else "env_steps"


RETURNS = PlotView()
MOST_LETTERS = 100  # longest text in a picture
INSIDE = 6  # curves, at most, for a legend inside the picture; otherwise it is to the right
MOST_TIMES = 8  # largest ratio of the longest to the shortest run on a linear axis
SEEDS_SHOWN = 6  # runs in a picture, at most, whose seeds have lines of their own
THIN, THICK = 1.0, 2.4  # width of the lines of exploring episodes and of greedy ones
TURN = 0.1175  # part of the color circle between successive algorithms of the catalog: no two colors are close
TONES = ((0.40, 0.85), (0.55, 0.65), (0.30, 0.70))  # (lightness, saturation), in turn
DASHES: tuple[Any, ...] = (":", "--", "-.", (0, (8, 2)), (0, (1, 4)))  # dashes of levels


class Style(NamedTuple):
    """The appearance of a run's line."""

    color: str
    dashes: str = "-"
    seeds: bool = True  # whether each seed has a thin line of its own

    @staticmethod
    def of(index: int, runs: int) -> "Style":
        """Return the style of one of several runs: ten colors, then the same colors with other dashes."""
        return Style(color=f"C{index % 10}", dashes=("-", "--", "-.")[index // 10 % 3], seeds=runs <= SEEDS_SHOWN)


def color_of(algorithm: str) -> str | None:
    """Return the color of an algorithm, the same in every picture; None if the catalog does not have it."""
    if algorithm not in ALGORITHMS:
        return None
    index = list(ALGORITHMS).index(algorithm)
    lightness, saturation = TONES[index % len(TONES)]
    red, green, blue = colorsys.hls_to_rgb((0.8 + index * TURN) % 1.0, lightness, saturation)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def styles(algorithms: Sequence[str]) -> list[Style]:
    """Return a style for each run: its algorithm's color, with other dashes for further runs of the same algorithm.

    Runs of a single algorithm, or of one that the catalog does not have, have the colors of their positions.
    """
    runs = len(algorithms)
    if len(set(algorithms)) < min(2, runs) or any(color_of(name) is None for name in algorithms):
        return [Style.of(i, runs) for i in range(runs)]
    dashes = ("-", *DASHES[1:], DASHES[0])
    return [
        Style(
            color=color_of(name) or "",
            dashes=dashes[list(algorithms[:i]).count(name) % len(dashes)],
            seeds=runs <= SEEDS_SHOWN,
        )
        for i, name in enumerate(algorithms)
    ]


def curve(
    axes: "Axes", columns: dict[str, np.ndarray], style: Style, label: str = "", view: PlotView = RETURNS
) -> None:
    """Plot one run: training as a line with a band over seeds; for returns, evaluations as a thick line.

    Args:
      axes: axes of matplotlib.
      columns: from `metrics_csv.read`.
      style: the style of the run.
      label: its name in the legend; without one the legend names the kinds of lines.
      view: which column, over what, how smooth.

    Raises:
      InputError: if there is no such column.
    """
    if view.metric not in columns or view.column not in columns:
        raise unknown("metric", view.metric, ["episode_return", "episode_length", *metrics_csv.metrics(columns)])
    training = {
        seed: (x, smoothed(y, view.smooth))
        for seed, (x, y) in metrics_csv.by_seed(columns, view.metric, view.column).items()
    }
    grid = np.linspace(0, columns[view.column].max(), GRID)
    values = on_grid(training, grid)
    seeds = values.shape[0]
    greedy = evaluations(columns, view) if view.metric == RETURNS.metric else []
    if seeds:
        center, low, high, how = center_and_interval(values)
        how = f" ({how} of {seeds} seeds)" if seeds > 1 else ""
        axes.plot(
            grid,
            center,
            color=style.color,
            linestyle=style.dashes,
            linewidth=THIN if greedy else 1.8,
            label=literal(label or ("exploring episodes" if view.metric == RETURNS.metric else view.metric), how),
        )
        if seeds > 1:
            axes.fill_between(grid, low, high, color=style.color, alpha=0.2 if style.seeds else 0.1, linewidth=0)
        if 1 < seeds <= 20 and style.seeds:
            for x, y in training.values():
                axes.plot(x, y, color=style.color, linewidth=0.5, alpha=0.25)
    if greedy:
        _greedy_line(axes, greedy, style, named=not label)


def _greedy_line(axes: "Axes", points: Sequence[tuple[float, float]], style: Style, named: bool) -> None:
    dot: dict[str, Any] = {"marker": "o", "markersize": 5} if len(points) == 1 else {}
    x, y = zip(*points, strict=True)
    name = {"label": "greedy episodes (mean)"} if named else {}
    axes.plot(x, y, color=style.color, linestyle=style.dashes, linewidth=THICK, **name, **dot)


def evaluations(columns: dict[str, np.ndarray], view: PlotView) -> list[tuple[float, float]]:
    """Return (x, mean of the greedy returns over seeds) of each evaluation."""
    points_of = metrics_csv.by_seed(columns, "evaluation_return", view.column)
    evaluated = [pair for pair in points_of.values() if len(pair[0])]
    points = sorted(set(np.concatenate([x for x, _ in evaluated]).tolist())) if evaluated else []
    return [(point, float(np.mean(np.concatenate([y[x == point] for x, y in evaluated])))) for point in points]


def smoothed(values: np.ndarray, rows: int) -> np.ndarray:
    """Return the mean of each value and the previous ones, `rows` in all: f64[n]."""
    if rows <= 1 or not len(values):
        return values
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - rows, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def panel(
    axes: "Axes",
    runs: Sequence[tuple[str, dict[str, np.ndarray]]],
    title: str,
    view: PlotView = RETURNS,
    levels: Mapping[str, float] = MappingProxyType({}),
    algorithms: Sequence[str] = (),
) -> None:
    """Draw one or several runs on one task.

    Args:
      axes: axes of matplotlib.
      runs: (name, columns) each.
      title: above it.
      view: as for `curve`.
      levels: {name: return}, returns to compare with, plotted as gray lines, each with dashes of its own.
      algorithms: the algorithm of each run, which has its own color.
    """
    for (name, columns), style in zip(runs, styles(algorithms or [""] * len(runs)), strict=True):
        curve(axes, columns, style, name if len(runs) > 1 else "", view)
    if len(runs) > 1 and view.metric == RETURNS.metric:
        axes.plot([], [], color="gray", linewidth=THICK, label="thick: greedy episodes (mean)")
    for dashes, (name, level) in zip(itertools.cycle(DASHES), levels.items(), strict=False):
        axes.axhline(level, color="gray", linestyle=dashes, linewidth=1.2, label=literal(name))
    axes.set_title(literal(title))
    label_curves(axes, view)
    lengths = [float(columns[view.column].max()) for _, columns in runs]
    if min(lengths) > 0 and max(lengths) > MOST_TIMES * min(lengths):  # else the shortest would be a line at the left
        formatter = axes.xaxis.get_major_formatter()
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(formatter)
        axes.set_xlim(min(lengths) / 20, max(lengths) * 1.1)
    names = len(axes.get_legend_handles_labels()[0])
    if names > INSIDE:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    elif names:
        axes.legend(frameon=False, loc="best")


def literal(text: str, more: str = "") -> str:
    """Return a text, shortened and with more text appended, escaped so that matplotlib draws it literally.

    $ would start a formula there, and a legend omits names that start with _.
    """
    shown = printable(" ".join(text.split()))
    cut = shown if len(shown) <= MOST_LETTERS else shown[: MOST_LETTERS - 3] + "..."
    return f"{' ' * cut.startswith('_')}{cut}{more}".replace("$", r"\$")


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> "Figure":
    """Return an empty figure of matplotlib, in inches, that works without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=130, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def new_grid(width: float, height: float, *, across: int, down: int) -> "Figure":
    """Return an empty figure for panels of this size in inches, with room for their ticks and titles.

    The margins are given, not measured: matplotlib's layout draws every panel twice more.
    """
    figure = new_figure(width * across, height * down, layout=None)
    left, right, bottom, top = 0.75, 0.15, 0.5, 0.35  # inches
    figure.subplots_adjust(
        left=left / (width * across),
        right=1 - right / (width * across),
        bottom=bottom / (height * down),
        top=1 - top / (height * down),
        wspace=(left + right) / (width - left - right),
        hspace=(bottom + top) / (height - bottom - top),
    )
    return figure


def tidy(axes: "Axes") -> None:
    """Give axes a light grid and no frame."""
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def label_curves(axes: "Axes", view: PlotView = RETURNS) -> None:
    """Label the axes of learning curves."""
    from matplotlib.ticker import EngFormatter

    axes.set_xlabel("seconds" if view.x == "wall" else "environment steps of each seed")
    axes.set_ylabel("episode return (sum of rewards)" if view.metric == RETURNS.metric else literal(view.metric))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlim(left=0)
    tidy(axes)


def save(figure: "Figure", path: Path) -> None:
    """Write a figure in the format of the path's extension.

    Raises:
      InputError: if it cannot be written.
    """
    kind = path.suffix.removeprefix(".") or "png"
    try:
        write_whole(path if path.suffix else path.with_suffix(".png"), lambda file: write(figure, file, kind))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path}: {error}") from None


def write(figure: "Figure", file: IO[bytes], kind: str) -> None:
    """Write a figure into an open file, without warnings about missing glyphs or tight layouts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(file, format=kind)


def plot_run(folder: Path, path: Path | None = None, view: PlotView = RETURNS) -> Path:
    """Write a run's curve.png; return its path."""
    stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in view.metric)
    return plot_runs([folder], path or folder / f"{'curve' if view.metric == RETURNS.metric else stem}.png", view)


def plot_runs(folders: Sequence[Path], path: Path, view: PlotView = RETURNS) -> Path:
    """Write one picture of several runs, with axes for each task; return its path."""
    tasks: dict[str, list[tuple[str, str, dict[str, np.ndarray]]]] = {}
    for folder, name in zip(folders, short_names(folders), strict=True):
        table = toml.read(folder / toml.RUN.file)
        read = (str(table.get("algorithm", "")), name, metrics_csv.read(folder / "metrics.csv"))
        tasks.setdefault(str(table.get("environment", folder.name)), []).append(read)
    figure = new_figure(8, 4.8 * len(tasks))
    for i, (task, runs) in enumerate(tasks.items()):
        algorithms = [algorithm for algorithm, _, _ in runs]
        who = algorithms[0].upper() if len(set(algorithms)) == 1 else "Learning curves"
        axes = figure.add_subplot(len(tasks), 1, i + 1)
        panel(axes, [run[1:] for run in runs], f"{who} on {task}", view, algorithms=algorithms)
    save(figure, path)
    return path
