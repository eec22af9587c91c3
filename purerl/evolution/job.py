"""The long job of an evolution: search, save, show and report, by any `purerl.evolution.method.Method`."""

import dataclasses
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.devices import sharding
from purerl.errors import InputError
from purerl.evolution.method import Generation, flatten
from purerl.evolution.plan import EvolvePlan
from purerl.evolution.program import Checkpoint, blank, compile_generation, template
from purerl.evolution.report import (
    columns_of,
    known,
    members_of,
    row_of,
    score_of,
    status_of,
    summary_of,
    write_report,
)
from purerl.reporting import summary
from purerl.reporting.display import number
from purerl.reporting.files import write_whole
from purerl.reporting.metrics_csv import Log, read
from purerl.run import checkpoint
from purerl.run.folders import changes
from purerl.run.lifecycle import LongJob
from purerl.settings import objective_file, toml
from purerl.settings.options import EvolveOptions
from purerl.trust import flags
from purerl.types import PyTree

FREE = tuple(  # settings that may differ from those of a checkpoint
    f"evolution.{name}" for name in ("generations", "minutes", "chunk", "checkpoint_generations", "keep_checkpoints")
)
ABSENT = {  # the values of options where the text of an older checkpoint does not name them
    f"evolution.{field.name}": field.default for field in dataclasses.fields(EvolveOptions)
}


class Evolved(NamedTuple):
    """The result of an evolution so far."""

    candidate: PyTree  # the center of the search
    first: PyTree  # where it began
    frames: list[tuple[int, PyTree]]  # (generation, center), as it changed
    columns: dict[str, np.ndarray]  # columns of generations.csv
    plan: EvolvePlan
    generation: int


class EvolutionJob(LongJob):
    """One evolution, in one process or several."""

    kind = toml.EVOLUTION

    def __init__(
        self, plan: EvolvePlan, folder: Path | None, display: str, go_on: bool = False, *, locked: bool = True
    ):
        """Take a folder; with `go_on`, resume from its newest checkpoint; `locked`: keep other processes out of it."""
        self.names = (plan.name, *(task.name for task in plan.tasks))
        super().__init__(folder, display, from_python=plan.from_python, locked=locked, names=self.names)
        self.plan = plan
        self.options = plan.options
        self.frame_interval = math.ceil(self.options.generations / self.options.frames)
        self.generation = 0
        self.checkpoint: Checkpoint | None = None
        self.log: Log | None = None
        self.rows: list[dict[str, Any]] = []
        self._time_is_up = False
        self.shapes = template(plan, self.options.frames)
        newest = checkpoint.newest(self.checkpoints) if go_on and folder is not None else 0
        if newest:
            with self.released_on_error():
                self._load(self.checkpoints.parent / self.kind.file, newest)

    def _load(self, file: Path, newest: int) -> None:
        self.checkpoint, found = checkpoint.load(self.checkpoints, newest, self.shapes)
        self.take_metadata(found)
        told = changes(file, found.get("settings"), self.plan.text, FREE.__contains__, ABSENT)
        self.notices += [told] if told else []
        self.generation = newest

    @property
    def position(self) -> int:
        """The number of generations."""
        return self.generation

    def progress_text(self) -> str:
        """Return how far the evolution is."""
        return f"generation {self.generation:,} of {self.options.generations:,}"

    def title(self) -> str:
        """Return the title of the display."""
        o, tasks = self.options, ", ".join(task.name for task in self.plan.tasks)
        on = f"{self.plan.mesh.size} x {self.plan.mesh.devices.flat[0].platform}"
        head = f"evolving {self.plan.name} on {tasks}: {o.population} {members_of(o)}"
        return f"{head} x {o.generations} generations, {on}"

    def already_finished(self) -> str:
        """Return the line to print if an earlier process finished the evolution."""
        folder, total = self.folder, self.options.generations
        if folder is None or self.generation < total or not (folder / "summary.json").exists():
            return ""
        return f"{folder} is complete: {total:,} generations, see {folder}/report/index.html"

    def done(self) -> bool:
        """Return whether all generations are done or the time limit is reached."""
        return self.generation >= self.options.generations or self._time_is_up

    def prepare(self) -> None:
        """Compile the generation, one program whose first call also starts the search, and open the log."""
        minutes = self.options.minutes
        self._until = time.perf_counter() + 60 * minutes if minutes else math.inf
        self.program = self.compiled(lambda: compile_generation(self.plan))
        self.checkpoint = self.checkpoint or blank(self.shapes)
        if jax.process_count() > 1:
            state = sharding.place(self.checkpoint.state, self.plan.mesh)
            self.checkpoint = self.checkpoint._replace(state=state)
        if self.folder is not None and self.first:
            self.log = Log(
                self.folder / "generations.csv",
                self.generation,
                first=columns_of(self.options.method),
                counter="generation",
                others=[f"mean/{task.name}" for task in self.plan.tasks],
                rows=self.generation,
                tell=self.display.line,
            )
        self._since, self._first_generation = time.perf_counter(), self.generation

    def votes(self) -> tuple[int, ...]:
        """Return (whether to save, whether the time limit is reached)."""
        save = self.generation % self.options.checkpoint_generations == 0
        return save, self.generation > 0 and time.perf_counter() >= self._until  # there is a first one to report

    def advance(self, *votes: int) -> None:
        """Evolve one generation, unless the time limit is reached."""
        (self._time_is_up,) = map(bool, votes)
        if self._time_is_up:
            return
        assert self.checkpoint is not None
        state, report = self.program(self.checkpoint.state, np.uint32(self.options.seed))
        report = jax.device_get(report)
        self.checkpoint = self.checkpoint._replace(state=state)
        if self.generation % self.frame_interval == 0:
            self._add_frame(report.mean)
        self.generation += 1
        self._record(report, (time.perf_counter() - self._since) / (self.generation - self._first_generation))

    def close_logs(self) -> None:
        """Close the log."""
        if self.log is not None:
            self.log.close()

    def _add_frame(self, center: np.ndarray) -> None:
        """Add this generation's center to the frames; if they are full, drop every second one."""
        assert self.checkpoint is not None
        frames, frame_at = np.array(self.checkpoint.frames), np.array(self.checkpoint.frame_at)
        count = int((frame_at >= 0).sum())
        if count == len(frames):  # the evolution got longer
            count = len(frames[::2])
            frames[:count], frame_at[:count], frame_at[count:] = frames[::2], frame_at[::2], -1
        frames[count], frame_at[count] = center, self.generation
        self.checkpoint = self.checkpoint._replace(frames=frames, frame_at=frame_at)

    def _record(self, report: Generation, seconds: float) -> None:
        """Write a generation's row and show it."""
        if self.generation == 1 and report.failed.all(axis=1).any():
            bad = [task.name for i, task in enumerate(self.plan.tasks) if report.failed[i].all()]
            raise InputError(
                f"every training run of the first generation failed on {', '.join(bad)}: losses were not "
                f"finite, or no episode ended within {self.plan.tasks[0].total_timesteps:,} steps"
            )
        row = row_of(self.plan, report, self.generation, self.wall_seconds())
        self.rows.append(row)
        if self.log is not None:
            self.log.write([row])
        speed = self.plan.env_steps / seconds
        self.display.update(status_of(row, self.options.generations, seconds, speed))

    def save(self) -> None:
        """Write a checkpoint."""
        self.metadata["wall_seconds"] = self.wall_seconds()
        keep = self.options.keep_checkpoints
        metadata = self.metadata | {"settings": self.plan.text}
        checkpoint.save(self.checkpoints, self.generation, self.checkpoint, metadata, keep)

    def finish(self) -> int:
        """Write summary.json and the report, and show the result; return 0."""
        if self.folder is not None and self.first:
            self.display.stage("drawing the report")
            found = self.evolved()
            write_report(self.plan, found.columns, found.frames, self.folder / "report")
            if not self.plan.from_python:
                content = objective_file.content(self.plan.name, found.candidate)
                write_whole(self.folder / objective_file.NAME, content)
            about = summary_of(self.plan, found.columns) | {
                "wall_seconds": round(self.wall_seconds(), 3),
                "compile_seconds": round(self.metadata["compile_seconds"], 3),
            }
            summary.write(self.folder / "summary.json", about)  # the last: it says complete
        self.display.close()
        means = known(self._columns()["mean"])
        first, last = float(means[0]), float(means[-1])
        self.display.line(f"done: mean {score_of(self.options)} of the population {number(first)} -> {number(last)}")
        if self.folder is not None:
            self.display.line(f"see {self.folder}/: report/index.html, generations.csv, summary.json, checkpoints/")
            if not self.plan.from_python:
                algorithm = self.plan.algorithm
                self.display.line(f"train with it: purerl train {algorithm} ENV --objective {self.folder}")
                self.display.line(
                    f"compare it with other objectives: purerl meta-evaluate {self.folder}{flags(*self.names)}"
                )
        return 0

    def evolved(self) -> Evolved:
        """Return the result so far."""
        assert self.checkpoint is not None
        plan, saved = self.plan, self.checkpoint
        first, tree = flatten(plan.candidate)
        center = tree(jnp.asarray(plan.method(1).center(jax.device_get(saved.state))))
        frames = [
            (int(at), tree(jnp.asarray(frame)))
            for at, frame in zip(saved.frame_at, saved.frames, strict=True)
            if at >= 0
        ]
        return Evolved(
            candidate=center,
            first=tree(first),
            frames=[*frames, (self.generation, center)],
            columns=self._columns(),
            plan=plan,
            generation=self.generation,
        )

    def _columns(self) -> dict[str, np.ndarray]:
        """Return the columns of generations.csv, or of the file that would be written."""
        if self.folder is not None and (self.folder / "generations.csv").exists():
            columns = read(self.folder / "generations.csv", columns_of(self.options.method))
        else:
            columns = {name: np.array([row[name] for row in self.rows]) for name in (self.rows[0] if self.rows else ())}
        return {name: values[columns["generation"] <= self.generation] for name, values in columns.items()}
