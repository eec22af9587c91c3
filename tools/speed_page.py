"""The page of benchmarks: its three charts and its tables, from the files in `results/`.

python tools/speed_page.py      docs/_static/*.png, and the tables of docs/benchmarks-tables.md
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import picture_file
from exit_code import exit_code
from result_file import FOLDER, path_of, read

from purerl.reporting import plot

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks import report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

STATIC = Path(__file__).parents[1] / "docs" / "_static"
TABLES = Path(__file__).parents[1] / "docs" / "benchmarks-tables.md"
XEON, EPYC, H200 = (f"benchmark-{name}.json" for name in ("intel-xeon-2", "amd-epyc-2", "intel-xeon-16-nvidia-h200"))
FASTER, SLOWER, OURS, THEIRS = "#0072b2", "#d55e00", "#0072b2", "#999999"
SPEED, BOTH, RATE = "purerl against it", "both against it", "environment steps/s"
NAMES = {
    "purejaxrl": "PureJaxRL",
    "jaxmarl": "JaxMARL",
    "craftax": "Craftax_Baselines",
    "cleanrl": "CleanRL",
    "sb3": "SB3",
    "torch": "PyTorch",
}


class Part(NamedTuple):
    """The rows of one heading of the first chart."""

    heading: str
    file: str
    groups: tuple[str, ...]
    peers: tuple[str, ...] = ()  # peers to show; empty: all


PARTS = (
    Part(
        heading="Training on a CPU (Intel Xeon, 2 cores)",
        file=XEON,
        groups=("training", "offpolicy", "suites.jaxmarl", "suites.craftax", "suites.pgx", "evolution.speed", "host"),
    ),
    Part(heading="brax, complete runs (AMD EPYC, 2 cores)", file=EPYC, groups=("suites.brax",)),
    Part(heading="stable-baselines3 (AMD EPYC, 2 cores)", file=EPYC, groups=("training", "offpolicy"), peers=("sb3",)),
    Part(
        heading="Training on a GPU (NVIDIA H200)",
        file=H200,
        groups=("gpu.ppo", "gpu.ppo-wide", "gpu.breakout", "gpu.seeds-2048"),
    ),
    Part(heading="Networks for images alone (Intel Xeon, 2 cores)", file=XEON, groups=("convolutions",)),
)


class Speedup(NamedTuple):
    """One row of the first chart."""

    task: str
    peer: str
    median: float
    low: float
    high: float
    whole: float | None  # with compilation


class Timed(NamedTuple):
    """A panel of the second chart: a result and a benchmark of equal environments, rollouts and networks."""

    task: str
    label: str
    peer: str
    file: str
    group: str
    row: str


_SPREAD = "jaxmarl/MPE_simple_spread_v3"
_CRAFTAX = "craftax/Craftax-Classic-Symbolic-v1"
TIMED = (
    *(
        Timed(task=_SPREAD, label=label, peer="jaxmarl", file=XEON, group="suites.jaxmarl", row=f"{name}, {_SPREAD}")
        for label, name in (
            ("ppo", "IPPO, 16 x 128"),
            ("mappo", "MAPPO with memory, 16 x 128"),
            ("qmix", "QMIX with memory, 8 x 25"),
        )
    ),
    Timed(
        task=_CRAFTAX,
        label="ppo",
        peer="craftax",
        file=XEON,
        group="suites.craftax",
        row=f"PPO, 256 x 64, {_CRAFTAX}",
    ),
    Timed(
        task="brax/halfcheetah",
        label="sac",
        peer="brax",
        file=EPYC,
        group="suites.brax",
        row="SAC, 64 envs, 16 gradient steps, brax/halfcheetah",
    ),
)


def records(file: str, groups: Sequence[str], results: Path = FOLDER) -> list[dict[str, Any]]:
    """Return the rows of groups' tables of a report, each by its column names."""
    found = report.read(results / file)
    tables = [table for name in groups for table in found[name]["tables"]]
    return [dict(zip([name for name, _ in t["columns"]], row, strict=True)) for t in tables for row in t["rows"]]


def speedups(part: Part, results: Path = FOLDER) -> list[Speedup]:
    """Return the rows of a part that compare purerl with a peer, whether faster or slower."""
    rows = []
    for row in records(part.file, part.groups, results):
        ratio = row.get(SPEED)
        if ratio is None or (part.peers and row["by"] not in part.peers):
            continue
        middle, low, high = (
            (ratio[name] for name in ("median", "low", "high")) if isinstance(ratio, dict) else [ratio] * 3
        )
        task = row.get("task") or f"{row['network']}, {row['samples at once']} at once, {row['work']}"
        peer = NAMES.get(row["by"]) or row["by"]
        rows.append(Speedup(task=task, peer=peer, median=middle, low=low, high=high, whole=row.get(BOTH)))
    return sorted(rows, key=lambda row: row.median, reverse=True)


def draw_speedups(results: Path = FOLDER) -> tuple["Picture", Any]:
    """Return the first chart and its data: a dot and a whisker per task, on a log axis."""
    parts = [(part.heading, speedups(part, results)) for part in PARTS]
    lines = sum(len(rows) + 1.4 for _, rows in parts)
    picture = plot.new_figure(8.4, 0.215 * lines + 0.9)
    axes = picture.add_subplot()
    ticks, place = [], 0.0
    for heading, rows in parts:
        axes.text(
            -0.02,
            place,
            heading,
            transform=axes.get_yaxis_transform(),
            ha="right",
            va="center",
            weight="bold",
            fontsize=9,
        )
        for row in rows:
            place += 1
            color = FASTER if row.median >= 1 else SLOWER
            axes.plot([row.low, row.high], [place, place], color=color, linewidth=1.6)
            axes.plot(row.median, place, "o", color=color, markersize=5)
            if row.whole is not None:
                axes.plot(row.whole, place, "o", color=color, markersize=5, markerfacecolor="none")
            ticks.append((place, f"{row.task} | {row.peer}"))
        place += 1.4
    axes.axvline(1, color="black", linewidth=0.9)
    axes.set_xscale("log")
    edges = [0.25, 0.5, 1, 2, 4, 8, 16, 32]
    axes.set_xticks(edges, [f"{edge:g}x" for edge in edges], fontsize=8)
    axes.set_xticks([], minor=True)
    axes.tick_params(axis="x", top=True, labeltop=True)
    axes.set_yticks([at for at, _ in ticks], [name for _, name in ticks], fontsize=7.5)
    axes.set_ylim(place - 0.6, -0.9)
    axes.set_xlabel("speed of purerl / speed of the peer", fontsize=9)
    plot.tidy(axes)
    for marker, name in (
        ("full", "compilation excluded"),
        ("none", "compilation included"),
    ):
        axes.plot([], [], "o", color=FASTER, fillstyle=marker, markersize=5, label=name)
    axes.plot([], [], "o", color=SLOWER, markersize=5, label="purerl is slower")
    axes.legend(loc="upper right", bbox_to_anchor=(1.0, 0.95), fontsize=7.5, frameon=False)
    return picture, parts


def draw_returns(results: Path = FOLDER) -> tuple["Picture", Any]:
    """Return the second chart and its data: return against seconds, a panel for each task of `TIMED`."""
    picture = plot.new_figure(9, 5.2)
    data = []
    for number, timed in enumerate(TIMED):
        axes = picture.add_subplot(2, 3, number + 1)
        for label, by, color in ((timed.label, "purerl", OURS), (f"{timed.label}-by-{timed.peer}", timed.peer, THEIRS)):
            seconds, returns = over_time(timed, label, by, results)
            axes.plot(seconds, returns, color=color, linewidth=2, marker="o", markersize=4, label=NAMES.get(by, by))
            data.append((timed.task, by, np.round(seconds, 6).tolist(), np.round(returns, 6).tolist()))
        axes.set_title(f"{timed.label.upper()}, {timed.task.partition('/')[2]}", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.set_xlim(left=0)
        axes.legend(frameon=False, fontsize=8, loc="lower right")
        plot.tidy(axes)
    picture.supxlabel("seconds of one seed, compilation included", fontsize=9)
    picture.supylabel("greedy return, mean over seeds", fontsize=9)
    return picture, data


def over_time(timed: Timed, label: str, by: str, results: Path = FOLDER) -> tuple[np.ndarray, np.ndarray]:
    """Return (seconds, mean greedy return over seeds), f64[points] each, of a result at the speed of a benchmark."""
    columns = read(path_of(timed.task, label, results)).columns
    steps, returns = columns["env_steps"], columns["evaluation_return"]
    points = np.unique(steps[~np.isnan(returns)])
    means = np.array([np.nanmean(returns[steps == point]) for point in points])
    rows = records(timed.file, [timed.group], results)
    (row,) = [row for row in rows if (row["task"], row["by"]) == (timed.row, by)]
    return row["compile"] + points / _median(row[RATE]), means


def draw_scaling(results: Path = FOLDER) -> tuple["Picture", Any]:
    """Return the third chart and its data: steps per second against environments and seeds."""
    costs = records(XEON, ["costs"], results)
    lines = {
        size: [(row["of it"], 1e9 / row["environment step, ns"]) for row in costs if row["size"] == size]
        for size in ("environments", "seeds")
    }
    points = {
        "environments": [(4, "gpu.ppo"), (2048, "gpu.ppo-wide")],
        "seeds": [(1, "gpu.ppo"), (2048, "gpu.seeds-2048")],
    }
    cpu = {"environments": [(4, "PPO, 4 x 128, CartPole-v1"), (2048, "PPO, 2048 x 32, CartPole-v1")], "seeds": []}
    data: dict[str, Any] = {}
    for size, line in lines.items():
        data[size] = {"purerl, Xeon, rollouts of 32": line}
        for by, name in (("purerl", "purerl"), ("purejaxrl", "PureJaxRL")):
            rates = {row["task"]: _median(row[RATE]) for row in records(XEON, ["training"], results) if row["by"] == by}
            if cpu[size]:
                data[size][f"{name}, Xeon"] = [(count, rates[task]) for count, task in cpu[size]]
            data[size][f"{name}, H200"] = [
                (count, _median(row[RATE]))
                for count, group in points[size]
                for row in records(H200, [group], results)
                if row["by"] == by
            ]
    picture = plot.new_figure(9, 3.6)
    for axes, (size, series) in zip(np.ravel(picture.subplots(1, 2, sharey=True)), data.items(), strict=True):
        for name, values in series.items():
            _series(axes, name, values)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(f"{size}" + (" of one agent" if size == "environments" else ", 4 to 8 environments each"))
        axes.legend(frameon=False, fontsize=7.5, loc="upper left")
        plot.tidy(axes)
    picture.axes[0].set_ylabel("environment steps/s, total")
    return picture, data


def _series(axes: "Axes", name: str, values: Sequence[tuple[float, float]]) -> None:
    """Draw one series: a line along a sweep, and markers alone where two sizes were measured."""
    ours, swept = name.startswith("purerl"), "rollouts" in name
    look = {
        "color": OURS if ours else THEIRS,
        "marker": "s" if "H200" in name else "o",
        "markersize": 3 if swept else 6,
    }
    axes.plot(*zip(*values, strict=True), linestyle="-" if swept else "none", label=name, **look)


def _median(cell: Any) -> float:
    """Return the median of a cell of a report."""
    return float(cell["median"] if isinstance(cell, dict) else cell)


CHARTS = {"speedup": draw_speedups, "return-by-seconds": draw_returns, "scaling": draw_scaling}


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(args)
    for name, chart in CHARTS.items():
        picture, data = chart()
        picture_file.write(picture, STATIC / f"{name}.png", data)
        print(f"wrote {STATIC / name}.png")
    report.write_page(TABLES)
    print(f"wrote {TABLES}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main, "speed_page"))
