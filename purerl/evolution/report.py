"""Reports of an evolution: a row of generations.csv, the display, and a page with pictures."""

import html
from pathlib import Path
from typing import Any

import jax
import numpy as np

from purerl.evolution import plot as plots
from purerl.evolution.distill import distill
from purerl.evolution.method import METRICS, Generation
from purerl.evolution.plan import EvolvePlan
from purerl.functional.objectives import Objective
from purerl.reporting import summary
from purerl.reporting.display import CURVE, Status, duration, number
from purerl.reporting.files import own_folder, remove_parts, write_whole
from purerl.settings import toml
from purerl.settings.options import EvolveOptions
from purerl.types import PyTree

BEFORE, AFTER = ("generation", "env_steps", "wall_seconds"), ("mean", "best", "spread", "failed")  # the metrics
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>body {{ font: 16px/1.5 sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }}
img {{ max-width: 100% }} pre {{ background: #f4f4f4; padding: .8rem; overflow-x: auto }}</style></head>
<body><h1>{title}</h1>
{body}
</body></html>
"""


def columns_of(method: str) -> tuple[str, ...]:
    """Return the first columns of generations.csv for a method."""
    return *BEFORE, *METRICS[method], *AFTER


def members_of(options: EvolveOptions) -> str:
    """Return the word for the members of a method's population."""
    return "candidates" if options.method == "evolution" else "agents"


def score_of(options: EvolveOptions) -> str:
    """Return the word for a method's fitness: its name, or the return of agents of all ages."""
    return options.fitness if options.method == "evolution" else "return"


def status_of(row: dict[str, Any], generations: int, seconds: float, steps_per_second: float) -> Status:
    """Return the display's contents for a generation's row; `seconds` is the time of a generation."""
    done, mean, best = row["generation"], number(row["mean"]), number(row["best"])
    names = next(names for names in METRICS.values() if names[0] in row)
    metrics = [(name.replace("_", " "), number(row[name])) for name in names]
    shown = f"{metrics[0][0]} {metrics[0][1]}"
    speed = f"{steps_per_second:,.0f} steps/s"
    failed = [("failed", f"{row['failed']} training runs were not finite")] if row["failed"] else []
    return Status(
        share=done / generations,
        seconds_left=seconds * (generations - done),
        height=float(row["mean"]),
        line=f"generation {done:>5,}  mean {mean}  best {best}  {shown}  {speed}",
        rows=[
            ("generation", f"{done:,} of {generations:,}, {duration(seconds)} each"),
            ("speed", f"{speed}, {duration(row['wall_seconds'])} so far"),
            ("fitness, mean", f"{mean} +- {number(row['spread'])}"),
            CURVE,
            ("fitness, best", best),
            *metrics,
            *failed,
        ],
    )


def row_of(plan: EvolvePlan, report: Generation, generation: int, wall: float) -> dict[str, Any]:
    """Return a generation's row; fitness is averaged over tasks and over the candidates that did not fail."""
    fitness = np.where(np.isfinite(report.fitness), report.fitness, np.float32(np.nan))
    found = known(fitness.mean(axis=0))
    return {
        "generation": generation,
        "env_steps": generation * plan.env_steps,
        "wall_seconds": wall,
        **{name: np.float32(report.metrics[name]) for name in METRICS[plan.options.method]},
        "mean": found.mean(),
        "best": found.max(),
        "spread": found.std(),
        "failed": int(report.failed.sum()),
    } | {f"mean/{task.name}": known(scores).mean() for task, scores in zip(plan.tasks, fitness, strict=True)}


def known(values: np.ndarray) -> np.ndarray:
    """Return the finite values; [NaN] if there are none."""
    found = values[np.isfinite(values)]
    return found if found.size else np.full(1, np.nan, np.float32)


def summary_of(plan: EvolvePlan, columns: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return an evolution's summary.json without its times; `columns` come from generations.csv."""
    device, n = jax.devices()[0], len(columns["mean"])
    number_or_none = lambda value: float(value) if np.isfinite(value) else None
    return {
        "format": toml.FORMAT,
        "objective": plan.name,
        "tasks": [task.name for task in plan.tasks],
        "generations": n,
        "training_runs": plan.num_training_runs(n),
        "env_steps": int(columns["env_steps"][-1]),
        "mean_first": number_or_none(columns["mean"][0]),
        "mean_last_tenth": number_or_none(known(columns["mean"][-max(1, n // 10) :]).mean()),
        "best": number_or_none(known(columns["best"]).max()),
        "device": {"platform": device.platform, "kind": device.device_kind},
        "versions": summary.versions(),
    }


def write_report(
    plan: EvolvePlan,
    columns: dict[str, np.ndarray],
    frames: list[tuple[int, PyTree]],
    folder: Path,
) -> Path:
    """Write pictures and index.html of (generation, center) pairs, the last one the result; return the page's path."""
    remove_parts(own_folder(folder))
    tasks = ", ".join(task.name for task in plan.tasks)
    fitness = f"return ({score_of(plan.options)})" if plan.options.method == "evolution" else "return"
    plots.draw_fitness(columns, folder / "fitness.png", f"{fitness}, {tasks}")
    mean = columns["mean"]
    parts = [
        f"<p>{plan.options.population} {members_of(plan.options)} x {len(mean)} generations x {plan.options.seeds} "
        f"training runs on {html.escape(tasks)}: {plan.num_training_runs(len(mean)):,} training runs in all. The "
        f"population's mean {fitness} changed from {number(float(known(mean)[0]))} in the first generation to "
        f"{number(float(known(mean[-max(1, len(mean) // 10) :]).mean()))} in the last tenth.</p>",
        _image("fitness.png", "fitness over generations"),
    ]
    objectives = [(generation, plots.objective_of(tree)) for generation, tree in frames]
    drawn = [(generation, objective) for generation, objective in objectives if objective is not None]
    if drawn:
        parts += _of_objective(drawn, folder)
    page = folder / "index.html"
    write_whole(page, PAGE.format(title=html.escape(f"Evolution of {plan.name}"), body="\n".join(parts)))
    return page


def _of_objective(frames: list[tuple[int, Objective]], folder: Path) -> list[str]:
    generation, learned = frames[-1]
    plots.draw_heat_maps(learned, folder / "heat_maps.png", f"the objective after {generation} generations")
    plots.draw_slices({"learned": learned, **plots.known_objectives()}, folder / "slices.png")
    plots.animate(frames, folder / "evolution.gif")
    form = distill(learned).text()
    write_whole(folder / "closed_form.txt", form + "\n")
    return [
        "<h2>Learned objective</h2>",
        "<p>The objective is r A - D, where r is the ratio of the new to the old probability of an action, A its "
        "advantage and D the drift. The gradient with respect to r is A without a drift, and 0 where the objective "
        "does not change the ratio.</p>",
        _image("heat_maps.png", "heat maps of the drift and of its gradient, and their difference from PPO"),
        "<h2>Comparison with PPO and DPO</h2>",
        _image("slices.png", "slices at six advantages"),
        "<h2>Evolution over generations</h2>",
        _image("evolution.gif", "the gradient with respect to the ratio over generations"),
        "<h2>Closed form</h2>",
        f"<pre>{html.escape(form)}</pre>",
    ]


def _image(name: str, alt: str) -> str:
    return f'<p><img src="{name}" alt="{html.escape(alt)}"></p>'
