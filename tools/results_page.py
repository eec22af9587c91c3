"""The page of results: its pictures and its tables, from the files in `results/`.

`python tools/learning_curves.py --table` writes it.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import picture_file
import results_charts
from figures import FIGURES, MISSED, Figure, settings_for
from result_file import FOLDER, Result, path_of, read

from purerl import registry, stats
from purerl.reporting import plot

VERDICT_SEEDS = 3  # the fewest seeds of a comparison
CURVES = 8  # in a panel of a picture, at most
SIDE_BY_SIDE = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "Reacher")  # two of continuous actions
LEVEL_METHODS = {"dr": "domain randomization", "plr": "PLR", "robust-plr": "robust PLR", "accel": "ACCEL"}
MANY_AGENTS = "## Many agents"  # the last section of results/README.md


def make_pages(tasks: Sequence[str], results: Path = FOLDER) -> None:
    """Write the pictures of some tasks and results/README.md."""
    for task in tasks:
        draw(task, results)
    for name, chart in results_charts.CHARTS.items():
        picture, data = chart(results)
        if data:
            picture_file.write(picture, results / f"{name}.png", data)
    (results / "README.md").write_text(table(results), encoding="utf-8")


def draw(task: str, results: Path = FOLDER) -> None:
    """Draw all curves of a task into one picture, `CURVES` in a panel, with the random policy's return as a line."""
    figures = {figure.label: figure for figure in FIGURES if figure.task == task}
    there = {label: read(path) for label in figures if (path := path_of(task, label, results)).exists()}
    ends = {label: found for label, found in there.items() if len(set(found.columns["env_steps"])) == 1}
    curves = [(label, found.columns) for label, found in there.items() if label not in ends]
    if not curves:
        return
    random = path_of(task, "random", results)
    levels = {"random policy": float(read(random).final().mean())} if random.exists() else {}
    reached = {label: float(found.final().mean()) for label, found in ends.items()}
    rules = {label: "env" in figures[label].changes for label, _ in curves}  # other rules have axes of their own
    panels = [part for other in (False, True) for part in _panels([c for c in curves if rules[c[0]] == other])]
    published = {_published(figures[label]) for label in there if figures[label].reference}
    names = len(curves) + len(levels) + len(ends) + len(published)
    picture = plot.new_figure(8 if names < plot.INSIDE else 11, 4.8 * len(panels))
    for number, panel in enumerate(panels):
        named = [figures[label] for label, _ in panel if figures[label].reference]
        lines = levels | {_published(figure): figure.level for figure in named}
        axes = picture.add_subplot(len(panels), 1, number + 1)
        algorithms = [figures[label].algorithm for label, _ in panel]
        labels = [label for label, _ in panel]
        theirs = {name: level for name, level in reached.items() if figures[name]._replace(peer="").label in labels}
        title = task if len(panel) > 1 else f"{labels[0]} on {task}"
        plot.panel(axes, panel, title, levels=lines | theirs, algorithms=algorithms)
    path = results / f"{task.replace('/', '-')}.png"
    plot.save(picture, path)
    picture_file.shrink(path)


def _panels(curves: list[Any]) -> list[list[Any]]:
    """Return curves in groups of at most `CURVES`, alike, so that none holds a single one of many."""
    width = math.ceil(len(curves) / max(1, math.ceil(len(curves) / CURVES)))
    return [curves[first : first + width] for first in range(0, len(curves), max(1, width))]


def _published(figure: Figure) -> str:
    """Return the name of a reference; variants of an algorithm share it, as do algorithms compared with one source."""
    return f"{figure.source}'s {figure.source_algorithm or figure.algorithm}"


def table(results: Path = FOLDER) -> str:
    """Return results/README.md."""
    lines = [
        "# Results",
        "",
        "The returns of each algorithm on each task, next to published ones. A return is the mean undiscounted return",
        "of 128 greedy episodes per seed at the end of training (Pong: 16). Frames are environment steps; a step of",
        "Pong is four of its frames. IQM and 95% bootstrap intervals are over seeds; an interval needs five seeds, a",
        "verdict three. *On par* means that the interval, or the range of fewer seeds, reaches the reference.",
        "",
        "References are results that others published with their settings, or results of a peer's own trainer that",
        "we ran (`python tools/peer_curves.py`): equal steps, rollouts and networks, 64 episodes per seed. A test",
        "evaluates the shipped agents in the original MinAtar, where they score the same.",
        "",
        "`python tools/learning_curves.py --table` writes this page from the files in this folder. A file contains one",
        "curve per seed; its head holds the complete settings, the commit and the machine, and is a `config.toml`.",
        "`search/README.md` describes the sweeps that tuned the settings.",
        *results_charts.opening(results),
        *_overview(results),
        *_side_by_side(results),
    ]
    for task in dict.fromkeys(figure.task for figure in FIGURES):
        rows = _rows(task, results)
        if not rows:
            continue
        picture = f"{task.replace('/', '-')}.png"
        shown = [f"![Learning curves on {task}]({picture})", ""] if (results / picture).exists() else []
        head = "| algorithm | frames | seeds | mean | IQM | 95% interval | worst to best seed | reference |"
        table_ = [head, "|---|---|---|---|---|---|---|---|", *rows]
        summary = "Curves and returns" if shown else "Returns"
        lines += ["", f"## {task}", "", *_folded(summary, [_conditions(task, results), "", *shown, *table_])]
    return "\n".join([*lines, *_board_games(results), *_levels(results), *_many_agents(results)]) + "\n"


def _overview(results: Path) -> list[str]:
    """Return the table at the top of the page: our results next to published ones."""
    found = results_charts.compared(results)
    if not found:
        return []
    lines = ["| task | algorithm | frames | IQM | reference | verdict |", "|---|---|---|---|---|---|"]
    why, undecided = [], []
    for entry in found:
        figure, gap = entry.figure, _gap(entry)
        reference = _of_peer(*entry.peer) if entry.peer else _plus_minus(figure.published)
        frames, reached = f"{entry.ours.made['frames']:,}", _short(stats.iqm(entry.ours.final()))
        lines.append(f"| {' | '.join((figure.task, figure.label, frames, reached, reference, _verdict(entry, gap)))} |")
        reason = MISSED.get((figure.task, figure.label))
        if gap >= 0 or _on_par(entry):
            continue
        if entry.seeds >= VERDICT_SEEDS:
            why.append(f"- {figure.task}, {figure.label}: {reason or 'not known.'}")
        elif reason:
            undecided.append(f"- {figure.task}, {figure.label}: {reason}")
    text = ["", "## Comparison with published results", "", *_folded("All comparisons", lines)]
    if why:
        text += ["", "Why a result is below its reference:", "", *why]
    if undecided:
        text += ["", "Lower than the reference, with too few seeds for a verdict:", "", *undecided]
    return text


def _gap(entry: results_charts.Compared) -> float:
    """Return how far a result is above the higher end of its reference, or below the lower one (negative)."""
    reached = float(stats.iqm(entry.ours.final()))
    low, high = (entry.level, entry.level) if entry.peer else entry.figure.ends
    return max(reached - high, 0.0) + min(reached - low, 0.0)


def _verdict(entry: results_charts.Compared, gap: float) -> str:
    """Return on which side of its reference a result is; fewer than three seeds have no verdict."""
    side = "above" if gap >= 0 else "below"
    if entry.seeds < VERDICT_SEEDS:
        return f"no verdict, {_seeds(entry.seeds)}"
    if _on_par(entry):
        return f"on par, {_short(abs(gap))} {side}" if gap else "on par"
    within = gap < 0 and not entry.peer and -gap <= entry.figure.spread
    return f"{side} by {_short(abs(gap))}" + (f", within their ± {_short(entry.figure.spread)}" if within else "")


def _on_par(entry: results_charts.Compared) -> bool:
    """Return whether the interval of a result, or its seeds if they are few, reaches its reference."""
    low, high = _bounds(entry.ours)
    their_low, their_high = _bounds(entry.peer[1]) if entry.peer else entry.figure.ends
    return entry.seeds >= VERDICT_SEEDS and low <= their_high and their_low <= high


def _plus_minus(text: str) -> str:
    """Return a reference as the page writes it."""
    return text.replace("+-", "±")


def _folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Return lines that open with a click."""
    return ["<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>"]


def _side_by_side(results: Path) -> list[str]:
    """Return the table of all algorithms on the same small tasks."""
    cells: dict[str, dict[str, str]] = {}
    for figure in FIGURES:
        path = path_of(figure.task, figure.label, results)
        if figure.task in SIDE_BY_SIDE and figure.label == figure.algorithm and path.exists():
            found = read(path)
            reached = f"{_short(stats.iqm(found.final()))} in {round(found.made['frames'] / 1000):,}k"
            cells.setdefault(figure.algorithm, {})[figure.task] = reached
    if not cells:
        return []
    lines = [f"| algorithm | {' | '.join(SIDE_BY_SIDE)} |", f"|---|{'---|' * len(SIDE_BY_SIDE)}"]
    lines += [f"| {name} | {' | '.join(row.get(task, '') for task in SIDE_BY_SIDE)} |" for name, row in cells.items()]
    said = "IQM, and the number of environment steps."
    return ["", "## All algorithms on the same tasks", "", said, "", *_folded("Five small tasks", lines)]


def _of_peer(figure: Figure, result: Result) -> str:
    """Return what a peer's own trainer reached."""
    shown = f", {interval}" if (interval := _interval(result)) else ""
    return f"{_short(stats.iqm(result.final()))}{shown} ({figure.peer}'s own, run here, {_seeds(len(result.final()))})"


def _bounds(result: Result) -> tuple[float, float]:
    """Return the 95% interval of the IQM over seeds; the range of fewer than five."""
    if len(result.final()) < plot.ENOUGH_SEEDS:
        return float(result.final().min()), float(result.final().max())
    low, high = stats.bootstrap_interval(jax.random.key(0), result.final())
    return float(low), float(high)


def _interval(result: Result) -> str:
    """Return the interval as text; "" for fewer than five seeds."""
    enough = len(result.final()) >= plot.ENOUGH_SEEDS
    return " to ".join(_short(bound) for bound in _bounds(result)) if enough else ""


def _seeds(count: int) -> str:
    """Return a number of seeds as text."""
    return f"{count} seed{'s' if count > 1 else ''}"


def _board_games(results: Path) -> list[str]:
    """Return the section on games in turns, from the files of `tools/board_games.py`."""
    files = sorted((results / "games").glob("*.json"))
    if not files:
        return []
    lines = ["", "## Turn-based games", "", "`python tools/board_games.py` lets agents that were trained by self-play"]
    lines += [
        "(`--self-play 8`) play from either seat. The figures are means over seeds. `lookahead` sees its own move"
    ]
    lines += [
        "and each reply: it wins if it can, and prevents an immediate win of the other side. `perfect` solves the"
    ]
    lines += ["game from all its positions.", "", "<details>", "<summary>Games won, tied and lost</summary>", ""]
    lines += ["| game | algorithm | frames | seeds | against | move | games | won | tied | lost |"]
    lines += ["|---|---|---|---|---|---|---|---|---|---|"]
    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))
        head = f"[{found['environment']}](games/{file.name}) | {found['algorithm']} | {found['frames']:,}"
        for opponent, by_seed in found["scores"].items():
            for rows in zip(*by_seed.values(), strict=True):
                shares = (f"{np.mean([row[name] for row in rows]):.1%}" for name in ("won", "drawn", "lost"))
                games = sum(row["games"] for row in rows)
                cells = [head, str(len(rows)), opponent, rows[0]["seat"], f"{games:,}", *shares]
                lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", "</details>"]


def _levels(results: Path) -> list[str]:
    """Return the section on ways to choose levels, from the files of `tools/level_methods.py`."""
    files = sorted((results / "levels").glob("*.json"), key=lambda file: file.stem)
    if not files:
        return []
    lines = ["", "## Levels", "", "`python tools/level_methods.py` measures the fraction of episodes that agents solve"]
    lines += [
        "on held-out levels, after equal environment steps. The last column is the probability that a seed of the"
    ]
    lines += ["method solves more than a seed of domain randomization; from five seeds on, with its 95% interval."]
    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))
        given = f" ({' '.join(found['arguments'])})" if found["arguments"] else ""
        lines += [
            "",
            f"![Solved held-out levels of {found['environment']}](levels/{file.stem}.png)",
            "",
            f"[{found['environment']}](levels/{file.name}){given}:",
            "",
        ]
        lines += ["| method | steps | seeds | solved | worst to best seed | better |", "|---|---|---|---|---|---|"]
        means = {
            method: np.array([np.mean(list(run["solved"].values())) for run in runs])
            for method, runs in found["methods"].items()
        }
        for method, solved in means.items():
            steps = max(run["env_steps"] for run in found["methods"][method])
            better = "" if method == "dr" or "dr" not in means else _better(solved, means["dr"])
            seeds = f"{solved.min():.1%} to {solved.max():.1%}"
            cells = [LEVEL_METHODS[method], f"{steps:,}", str(len(solved)), f"{solved.mean():.1%}", seeds, better]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _better(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Return the probability of improvement, with its interval over seeds."""
    chance = stats.probability_of_improvement
    if min(len(ours), len(theirs)) < plot.ENOUGH_SEEDS:
        return f"{float(chance(ours, theirs)):.2f}"
    low, high = stats.bootstrap_interval(jax.random.key(0), ours, theirs, statistic=chance)
    return f"{float(chance(ours, theirs)):.2f}, {float(low):.2f} to {float(high):.2f}"


def _many_agents(results: Path) -> list[str]:
    """Return the section that `python -m benchmarks multi_agent --readme results/README.md` writes, as it is."""
    page = results / "README.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return ["", text[text.index(MANY_AGENTS) :].rstrip("\n")] if MANY_AGENTS in text else []


def _rows(task: str, results: Path) -> list[str]:
    figures = [figure for figure in FIGURES if figure.task == task]
    rows = [_row(figure, read(path)) for figure in figures if (path := path_of(task, figure.label, results)).exists()]
    level = path_of(task, "random", results)
    if rows and level.exists():
        rows.append(_row(Figure(task=task, algorithm="random"), read(level)))
    return rows


def _row(figure: Figure, result: Result) -> str:
    final = result.final()
    reference = _plus_minus(figure.published) if figure.reference else ""
    name = f"[{figure.label}]({figure.task.replace('/', '-')}/{figure.label}.csv)"
    cells = [name, f"{result.made['frames']:,}", str(len(final)), _short(final.mean()), _short(stats.iqm(final))]
    cells += [_interval(result), f"{_short(final.min())} to {_short(final.max())}", reference]
    return f"| {' | '.join(cells)} |"


def _short(value: Any) -> str:
    return f"{float(value):.1f}" if abs(value) >= 10 else f"{float(value):.2f}"


def _conditions(task: str, results: Path) -> str:
    """Return the conditions of a task's returns: time limit, sticky actions, action set; a suite's: all settings."""
    figures = [figure for figure in FIGURES if figure.task == task]
    if "/" in task:  # the suite may not be installed here
        labels = [figure.label for figure in figures]
        made = next(path for label in labels if (path := path_of(task, label, results)).exists())
        head = read(made).head
        given = "; ".join(f"{name}: {value}" for name, value in head.get("env", {}).items())
        judged = f" At the end agents play with {head['result']['judged']}." if "judged" in head["result"] else ""
        return (f"{given}." if given else "As the suite makes it.") + judged
    ours = _rules(task, settings_for(figures[0]).parameters)
    others = [f for f in figures if "env" in f.changes and not f.peer and path_of(task, f.label, results).exists()]
    return " ".join([ours, *(f"{f.label}: {_rules(task, f.changes['env'])}" for f in others)])


def _rules(task: str, given: Mapping[str, Any]) -> str:
    """Return the conditions of a native environment with changed parameters."""
    env = registry.make(task, **given)
    limit, sticky = getattr(env, "time_limit", None), getattr(env, "sticky_action_probability", None)
    time_limit = f"Time limit: {f'{limit} steps' if limit else 'none'}."
    if sticky is not None:  # a MinAtar game, which has these three parameters
        return f"{time_limit} Sticky actions: {sticky:g}. Actions: {env.action_space.n}."
    return " ".join(
        [*(f"{name.capitalize().replace('_', ' ')}: {value}." for name, value in given.items()), time_limit]
    )
