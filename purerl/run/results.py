"""The display of a run during training, and its results at the end."""

import contextlib
import importlib
import math
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from purerl.errors import InputError
from purerl.reporting import metrics_csv, summary
from purerl.reporting.display import CURVE, Status, duration, number, over_seeds
from purerl.run import checkpoint

if TYPE_CHECKING:
    from purerl.run.run import Run


def status(run: "Run", losses: Mapping[str, Any], wall_seconds: float) -> Status:
    """Return the display of a run whose last row has these metrics of the algorithm, f32[seeds] each."""
    rate = run.metadata["trained"] / max(run.metadata["train_seconds"], 1e-9)  # updates/s
    speed = f"{rate * run.config.steps_per_update * run.options.seeds:,.0f} steps/s"
    alive = run.failed.alive
    returns, evaluation = run.returns[alive], over_seeds(run.evaluation[alive])
    known, total = returns[~np.isnan(returns)], run.plan.num_updates
    means = {name: float(np.mean(values[alive])) for name, values in losses.items() if alive.size}
    steps = f"{run.env_steps:,} of {total * run.config.steps_per_update:,} per seed, update {run.update:,}"
    return Status(
        share=run.update / total,
        seconds_left=(total - run.update) / rate if rate else math.inf,
        height=float(known.mean()) if known.size else math.nan,
        line=f"{run.env_steps:>11,} steps  return {over_seeds(returns)}  evaluation {evaluation}  {speed}",
        rows=[
            ("steps", steps),
            ("speed", f"{speed}, {duration(wall_seconds)} so far"),
            ("return, training", over_seeds(returns)),
            CURVE,
            ("return, evaluation", evaluation),
            ("losses", "  ".join(f"{name} {number(value)}" for name, value in means.items())),
        ],
    )


def finished_line(run: "Run") -> str:
    """Return the result of a run that an earlier process finished, in one line; "" if there is none."""
    if not (run.folder / "summary.json").exists():
        return ""
    with contextlib.suppress(InputError):  # a damaged summary is written again
        found = summary.read(run.folder / "summary.json")
        here = found.get("env_steps") == run.env_steps and not run.changed
        early = str(found.get("ended_early") or "") if here else ""
        if early or run.update >= run.plan.num_updates:
            why = f" ({early})" if early else ""
            return f"{run.folder} is complete{why}: {run.update:,} updates, {summary.line(run.folder)}"
    return ""


def write(run: "Run") -> None:
    """Show a run's result, then write its curve.png, report.html and summary.json."""
    found = [line for row in run.plan.extensions if row.finish is not None for line in row.finish(run)]
    files = "checkpoints/; there are no rows"
    if run.log is not None and run.log.rows > 0:
        files = "report.html, summary.json, metrics.csv, curve.png, checkpoints/"
        columns = metrics_csv.read(run.folder / "metrics.csv")
        result = _summarized(run, columns)
        run.display.close()
        for line in [*_notes(run, columns, result), *found]:
            run.display.line(line)
        _write_files(run, result)
    run.display.line(f"see {run.folder}/: {files}")
    if run.failed.all:
        saved = checkpoint.steps(run.checkpoints)
        last = (
            f"the last good checkpoint is that of update {saved[-1]}" if saved else "no checkpoint had been saved yet"
        )
        run.display.line(f"every seed failed; {last}")


def _summarized(run: "Run", columns: dict[str, np.ndarray]) -> dict[str, Any]:
    result = summary.summarize(run.plan.settings, columns, run.update)
    result["status"] = "failed" if run.failed.all else "finished"
    names = run.plan.shapes.interval.algorithm
    result["failed"] = {str(failed.seed): failed.told(names) for failed in run.failed.found.values()}
    result |= {"ended_early": run.ended} if run.ended else {}
    return result | _timing(run)


def _write_files(run: "Run", result: dict[str, Any]) -> None:
    from purerl.reporting import report
    from purerl.reporting.plot import plot_run

    plot_run(run.folder)
    report.write_report(run.folder, result)
    summary.write(run.folder / "summary.json", result)  # the last: it says complete


def _notes(run: "Run", columns: dict[str, np.ndarray], result: dict[str, object]) -> list[str]:
    """Return the lines about a run that has ended."""
    lines = [f"ended early, at {run.progress_text()}: {run.ended}"] if run.ended else []
    lines.append(f"done: {summary.text(result)}")
    if not columns["episodes"].sum():
        lines.append("no episode ended in training: its rows have no returns")
    cut, count = run.cut_off
    if cut:
        lines.append(f"{cut} of {count} episodes of the last evaluation did not end and were cut off")
    return lines


def _timing(run: "Run") -> dict[str, Any]:
    device, train_seconds = jax.devices()[0], run.metadata["train_seconds"]
    steps = run.metadata["trained"] * run.config.steps_per_update * run.options.seeds
    return {
        "env_steps_per_second": round(steps / max(train_seconds, 1e-9), 1),
        "train_seconds": round(train_seconds, 3),
        "compile_seconds": round(run.metadata["compile_seconds"], 3),
        "wall_seconds": round(run.wall_seconds(), 3),
        "device": {"platform": device.platform, "kind": device.device_kind, "host": platform.machine()},
        "versions": summary.versions(),
    }


def import_packages() -> None:
    """Import the packages that only the end of a run needs: Orbax, and Matplotlib, which first builds a font cache."""
    for name in ("orbax.checkpoint", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        with contextlib.suppress(Exception):  # who needs them will tell
            importlib.import_module(name)
    with contextlib.suppress(Exception):
        from orbax.checkpoint import v1  # noqa: F401  # a name of the package, in a module of another one
