"""What is told of a generation: a row of generations.csv, and where the display stands."""

from typing import Any, NamedTuple

import numpy as np

from purerl.evolution.generations import Generation
from purerl.evolution.plan import EvolvePlan
from purerl.run.display import duration, number

COLUMNS = ("generation", "env_steps", "wall_seconds", "sigma", "mean", "best", "spread", "failed")


class Shown(NamedTuple):
    """Where an evolution is, for the display."""

    row: dict[str, Any]
    generations: int
    seconds: float  # of a generation
    steps_per_second: float

    @property
    def share(self) -> float:
        """How much is done, 0 .. 1."""
        return self.row["generation"] / self.generations

    @property
    def seconds_left(self) -> float:
        """The time left."""
        return self.seconds * (self.generations - self.row["generation"])

    @property
    def height(self) -> float:
        """The mean fitness of the population."""
        return float(self.row["mean"])

    def line(self) -> str:
        """Return all of it in one line."""
        row = self.row
        return (
            f"generation {row['generation']:>5,}  mean {number(row['mean'])}  best {number(row['best'])}  "
            f"sigma {number(row['sigma'])}  {self.steps_per_second:,.0f} steps/s"
        )

    def rows(self, curve: str) -> list[tuple[str, str]]:
        """Return the rows of the panel."""
        row = self.row
        failed = [("failed", f"{row['failed']} trainings were not finite")] if row["failed"] else []
        return [
            ("generation", f"{row['generation']:,} of {self.generations:,}, {duration(self.seconds)} each"),
            ("speed", f"{self.steps_per_second:,.0f} steps/s, {duration(row['wall_seconds'])} so far"),
            ("fitness, mean", f"{number(row['mean'])} +- {number(row['spread'])}"),
            ("", curve),
            ("fitness, best", number(row["best"])),
            ("sigma", number(row["sigma"])),
            *failed,
        ]


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
