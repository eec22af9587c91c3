"""Reports of an evolution: a row of generations.csv, the display, and a folder with pictures and a page of them."""

import html
from pathlib import Path
from typing import Any

import jax
import numpy as np

from purerl.evolution import plot as plots
from purerl.evolution.distill import distill
from purerl.evolution.generations import Generation
from purerl.evolution.plan import EvolvePlan
from purerl.functional.objectives import Objective
from purerl.reporting import summary
from purerl.reporting.display import CURVE, Status, duration, number
from purerl.reporting.files import own_folder, remove_parts, write_whole
from purerl.settings import toml
from purerl.types import PyTree

COLUMNS = ("generation", "env_steps", "wall_seconds", "sigma", "mean", "best", "spread", "failed")
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>body {{ font: 16px/1.5 sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }}
img {{ max-width: 100% }} pre {{ background: #f4f4f4; padding: .8rem; overflow-x: auto }}</style></head>
<body><h1>{title}</h1>
{body}
</body></html>
"""


def status_of(row: dict[str, Any], generations: int, seconds: float, steps_per_second: float) -> Status:
    """Return what the display shows of a generation's row; `seconds` is the time of a generation."""
    done, mean, best, sigma = row["generation"], number(row["mean"]), number(row["best"]), number(row["sigma"])
    speed = f"{steps_per_second:,.0f} steps/s"
    failed = [("failed", f"{row['failed']} trainings were not finite")] if row["failed"] else []
    return Status(
        share=done / generations,
        seconds_left=seconds * (generations - done),
        height=float(row["mean"]),
        line=f"generation {done:>5,}  mean {mean}  best {best}  sigma {sigma}  {speed}",
        rows=[
            ("generation", f"{done:,} of {generations:,}, {duration(seconds)} each"),
            ("speed", f"{speed}, {duration(row['wall_seconds'])} so far"),
            ("fitness, mean", f"{mean} +- {number(row['spread'])}"),
            CURVE,
            ("fitness, best", best),
            ("sigma", sigma),
            *failed,
        ],
    )


def row_of(plan: EvolvePlan, report: Generation, generation: int, wall: float) -> dict[str, Any]:
    """Return a generation's row; fitness is averaged over tasks, and over the candidates that did not fail."""
    fitness = np.where(np.isfinite(report.fitness), report.fitness, np.float32(np.nan))
    known = _known(fitness.mean(axis=0))
    return {
        "generation": generation,
        "env_steps": generation * plan.env_steps,
        "wall_seconds": wall,
        "sigma": np.float32(report.sigma),
        "mean": known.mean(),
        "best": known.max(),
        "spread": known.std(),
        "failed": int(np.isnan(fitness).sum()),
    } | {f"mean/{task.name}": _known(scores).mean() for task, scores in zip(plan.tasks, fitness, strict=True)}


def _known(values: np.ndarray) -> np.ndarray:
    found = values[np.isfinite(values)]
    return found if found.size else np.full(1, np.nan, np.float32)


def summary_of(plan: EvolvePlan, columns: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return an evolution's summary.json without its times; `columns` are those of generations.csv."""
    device, n = jax.devices()[0], len(columns["mean"])
    number_or_none = lambda value: float(value) if np.isfinite(value) else None
    return {
        "format": toml.FORMAT,
        "objective": plan.name,
        "tasks": [task.name for task in plan.tasks],
        "generations": n,
        "trainings": plan.trainings(n),
        "env_steps": int(columns["env_steps"][-1]),
        "mean_first": number_or_none(columns["mean"][0]),
        "mean_last_tenth": number_or_none(_known(columns["mean"][-max(1, n // 10) :]).mean()),
        "best": number_or_none(_known(columns["best"]).max()),
        "device": {"platform": device.platform, "kind": device.device_kind},
        "versions": summary.versions(),
    }


def write_report(
    plan: EvolvePlan,
    columns: dict[str, np.ndarray],
    frames: list[tuple[int, PyTree]],
    folder: Path,
) -> Path:
    """Write pictures and index.html of (generation, center), the last one what was found; return where the page is."""
    remove_parts(own_folder(folder))
    tasks = ", ".join(task.name for task in plan.tasks)
    fitness = f"return ({plan.options.fitness})"
    plots.draw_fitness(columns, folder / "fitness.png", f"{fitness}, {tasks}")
    mean = columns["mean"]
    parts = [
        f"<p>{plan.options.population} candidates x {len(mean)} generations x {plan.options.seeds} trainings, "
        f"{html.escape(tasks)}; "
        f"{plan.trainings(len(mean)):,} in all. The population's mean {fitness} went from {number(float(mean[0]))} to "
        f"{number(float(mean[-max(1, len(mean) // 10) :].mean()))} (last tenth).</p>",
        _image("fitness.png", "fitness over generations"),
    ]
    objectives = [(generation, plots.objective_of(tree)) for generation, tree in frames]
    known = [(generation, objective) for generation, objective in objectives if objective is not None]
    if known:
        parts += _of_objective(known, folder)
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
        "<h2>What was found</h2>",
        "<p>The objective is r A - D, with r the ratio of the new to the old probability, A the advantage. The push on "
        "the ratio is its derivative: A where there is no drift, 0 where the ratio shall stay.</p>",
        _image("heat_maps.png", "heat maps of the drift and of its gradient, and their difference from PPO"),
        "<h2>Beside PPO and DPO</h2>",
        _image("slices.png", "slices at six advantages"),
        "<h2>How it came to be</h2>",
        _image("evolution.gif", "the push on the ratio over generations"),
        "<h2>In closed form</h2>",
        f"<pre>{html.escape(form)}</pre>",
    ]


def _image(name: str, alt: str) -> str:
    return f'<p><img src="{name}" alt="{html.escape(alt)}"></p>'
