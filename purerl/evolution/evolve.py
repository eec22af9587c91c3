"""Evolution of objectives: its life on the host. Compile once, advance by generations, log, save, stop and go on.

Everything that decides a number happens on the device and depends on the generation alone: an evolution that was
killed and resumed gives the same bits as one that was not.
"""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.devices import distributed, sharding
from purerl.errors import InputError
from purerl.evolution.generation_csv import COLUMNS, Shown, row_of
from purerl.evolution.generations import Generation, flatten
from purerl.evolution.inner_loop import Learner, Task
from purerl.evolution.plan import FILE, EvolveOptions, EvolvePlan, python_plan, saved_plan
from purerl.evolution.program import Kept, compile_generation, nothing, template
from purerl.run import checkpoint, named, summary
from purerl.run.config import FORMAT
from purerl.run.display import Silent, duration, number, open_display
from purerl.run.interrupt import Stop
from purerl.run.metrics_csv import Log, read
from purerl.run.plan import check_same, lock, new_folder
from purerl.types import PyTree


class Evolved(NamedTuple):
    """What an evolution has found so far."""

    candidate: PyTree  # the center of the search
    first: PyTree  # where it began
    frames: list[tuple[int, PyTree]]  # (generation, center), as it changed
    columns: dict[str, np.ndarray]  # of generations.csv
    plan: EvolvePlan
    generation: int


def evolve(
    candidate: PyTree,
    learner: Learner,
    tasks: Sequence[Task],
    *,
    strategy: Any = None,
    out: str | Path | None = None,
    resume: bool = False,
    plain: bool = False,
    **options: Any,
) -> Evolved:
    """Evolve the float parameters of a candidate by whole trainings with it.

    Args:
      candidate: any pytree that the learner takes, such as an objective; where the search starts.
      learner: candidate -> algorithm, such as `Plug(ppo, "objective")` of `purerl.evolution.inner_loop`.
      tasks: `purerl.evolution.inner_loop.Task`s: what it is trained on and for how long.
      strategy: of `purerl.evolution.strategies`, whose population then counts; None: as `options` say.
      out: a folder for generations.csv, checkpoints and the report; none is written without one.
      resume: go on with the evolution in `out`, if there is one; the arguments must be the same.
      plain: lines of text instead of a live panel.
      **options: fields of `purerl.evolution.plan.EvolveOptions`, such as population=64, generations=100.

    Raises:
      InputError: for what cannot be, before anything is compiled.
    """
    plan = python_plan(EvolveOptions(**options), candidate, learner, tasks, strategy)
    folder = Path(out) if out is not None else None

    def take(folder: Path) -> str:
        if resume and folder.exists():
            check_same(folder / FILE, plan.text, "evolution")
            return "go on"
        _new_folder(plan, folder)
        parts = {"candidate": candidate, "learner": learner, "tasks": tuple(tasks), "strategy": strategy}
        named.write(folder / named.FILE, **parts)
        return ""

    go_on = folder is not None and bool(distributed.first_does(lambda: take(folder)))
    life = Life(plan, folder, plain, go_on)
    if life.complete():
        raise KeyboardInterrupt
    return life.evolved()


def start(plan: EvolvePlan, out: Path | None = None, plain: bool = False) -> int:
    """Evolve from the beginning, into `out` or runs/evolve-OBJECTIVE-N; return the exit code."""
    return Life(plan, Path(distributed.first_does(lambda: _new_folder(plan, out))), plain).complete()


def resume(folder: Path, plain: bool = False, **devices: Any) -> int:
    """Go on with an evolution that was stopped, to the same bits as if it had never been; as `start`.

    Args:
      folder: of the evolution.
      plain: print lines instead of a live panel.
      devices: `devices` in place of its own.
    """
    return Life(saved_plan(folder, **devices), folder, plain, go_on=True).complete()


def load(folder: str | Path) -> Evolved:
    """Return what an evolution's folder holds: the objective, and how it came to be.

    Raises:
      InputError: if there is no evolution or no checkpoint, or it is damaged.
    """
    folder = Path(folder)
    life = Life(saved_plan(folder), folder, plain=True, go_on=True, held=False)
    if life.kept is None:
        raise InputError(f"{folder} has no checkpoint yet")
    return life.evolved()


def _new_folder(plan: EvolvePlan, out: Path | None) -> str:
    folder = new_folder(out, "evolve", plan.name)
    (folder / FILE).write_text(plan.text, encoding="utf-8")
    return str(folder)


class Life:
    """One evolution, in one process or several."""

    def __init__(self, plan: EvolvePlan, folder: Path | None, plain: bool, go_on: bool = False, held: bool = True):
        """Take a folder; with `go_on`, what its newest checkpoint says; `held`: let nobody else write there."""
        self.plan, self.folder, self.plain = plan, folder, plain
        self.options = plan.options
        self.every = math.ceil(self.options.generations / self.options.frames)
        self.generation = 0
        self.notes = {"wall_seconds": 0.0, "compile_seconds": 0.0}
        self.kept: Kept | None = None
        self.log: Log | None = None
        self.rows: list[dict[str, Any]] = []
        self._lock = None
        if held:
            distributed.first_does(self._take_folder)
        self.shapes = template(plan, self.options.frames)
        newest = checkpoint.newest(folder / "checkpoints") if go_on and folder is not None else 0
        if newest and folder is not None:
            self.kept, self.notes = checkpoint.load(folder / "checkpoints", newest, self.shapes)
            self.generation = newest

    def _take_folder(self) -> str:
        if self.folder is not None:
            self._lock = lock(self.folder, FILE)
            checkpoint.remove_unfinished(self.folder / "checkpoints")
        return ""

    def complete(self) -> int:
        """Evolve to the end, or until a signal, and write the results; return the exit code."""
        folder, total = self.folder, self.options.generations
        first = distributed.is_first()
        if folder is not None and self.generation >= total and (folder / "summary.json").exists():
            if first:
                print(f"{folder} is complete: {total:,} generations, see {folder}/report/index.html")
            return 0
        self.display: Any = open_display(self._title(), self.plain) if first else Silent()
        try:
            with Stop() as self.stop, distributed.watched(self._lost):
                self._compile()
                if folder is not None and first:
                    self.log = Log(folder / "generations.csv", self.generation, COLUMNS, "generation")
                self._advance()
                return self._finish()
        finally:
            self.display.close()
            if self.log is not None:
                self.log.close()
            if self._lock is not None:
                self._lock.close()

    def _lost(self, why: str) -> None:
        self.display.close()
        distributed.give_up(why, f"purerl evolve --resume {self.folder}" if self.folder else None)

    def _title(self) -> str:
        o, tasks = self.options, ", ".join(task.name for task in self.plan.tasks)
        mesh = self.plan.mesh
        on = f"{mesh.size} x {mesh.devices.flat[0].platform}"
        return f"evolving {self.plan.name} on {tasks}: {o.population} candidates x {o.generations} generations, {on}"

    def _compile(self) -> None:
        """Compile the generation: one program, whose first call also starts the search."""
        self.display.stage("compiling")
        began = time.perf_counter()
        self._until = began + 60 * self.options.minutes if self.options.minutes else math.inf
        self.program = compile_generation(self.plan)
        self.notes["compile_seconds"] += time.perf_counter() - began
        self.display.line(
            f"compiled in {duration(time.perf_counter() - began)}" + (f"; writing {self.folder}" if self.folder else "")
        )
        self._began = time.perf_counter() - self.notes["wall_seconds"]
        self.kept = self.kept or nothing(self.shapes)
        if jax.process_count() > 1:
            self.kept = self.kept._replace(state=sharding.place(self.kept.state, self.plan.mesh))

    def _advance(self) -> None:
        saved_at = began_at = self.generation
        since = time.perf_counter()
        while self.generation < self.options.generations:
            over = time.perf_counter() >= self._until
            said = distributed.agree(over, self.stop.signal)  # what the clock decides, the first process's clock does
            self.stop.signal = int(said[:, 1].max())
            if said[0, 0] or self.stop.signal:
                break
            assert self.kept is not None
            state, report = self.program(self.kept.state, np.uint32(self.options.seed))
            report = jax.device_get(report)
            self.kept = self.kept._replace(state=state)
            if self.generation % self.every == 0:
                self._keep(report.mean)
            self.generation += 1
            each = (time.perf_counter() - since) / (self.generation - began_at)
            self._note(report, each)
            if self.generation % self.options.checkpoint_generations == 0:
                self._save()
                saved_at = self.generation
        if self.generation > saved_at:
            self._save()

    def _keep(self, center: np.ndarray) -> None:
        """Keep the center of this generation as a frame."""
        assert self.kept is not None
        place = self.generation // self.every
        frames, frame_at = np.array(self.kept.frames), np.array(self.kept.frame_at)
        frames[place], frame_at[place] = center, self.generation
        self.kept = self.kept._replace(frames=frames, frame_at=frame_at)

    def _note(self, report: Generation, each: float) -> None:
        """Write a generation's row and show it."""
        if self.generation == 1 and not np.isfinite(report.fitness).any(axis=1).all():
            bad = [task.name for i, task in enumerate(self.plan.tasks) if not np.isfinite(report.fitness[i]).any()]
            raise InputError(
                f"every training of the first generation failed on {', '.join(bad)}: its losses are not finite, or no "
                f"episode ended within {self.plan.tasks[0].total_timesteps:,} steps"
            )
        row = row_of(self.plan, report, self.generation, time.perf_counter() - self._began)
        self.rows.append(row)
        if self.log is not None:
            self.log.write([row])
        self.display.update(Shown(row, self.options.generations, each, self.plan.env_steps / each))

    def _save(self) -> None:
        if self.folder is None:
            return
        self.notes["wall_seconds"] = time.perf_counter() - self._began
        checkpoint.save(
            self.folder / "checkpoints", self.generation, self.kept, self.notes, self.options.keep_checkpoints
        )

    def _finish(self) -> int:
        """Write summary.json and the report, and say how it went; return the exit code."""
        if self.stop.signal:
            self.display.close()
            self.display.line(f"stopped at generation {self.generation:,} of {self.options.generations:,}")
            if self.folder is not None:
                self.display.line(f"go on with:\n  purerl evolve --resume {self.folder}")
            return 128 + self.stop.signal
        if self.folder is not None and distributed.is_first():
            from purerl.evolution.report import write_report

            self.display.stage("drawing the report")
            found = self.evolved()
            summary.write(self.folder / "summary.json", self._summary(found.columns))
            write_report(self.plan, found.columns, found.frames, self.folder / "report")
        self.display.close()
        means = self._columns()["mean"]
        first, last = float(means[0]), float(means[-1])
        self.display.line(f"done: mean {self.options.fitness} of a population {number(first)} -> {number(last)}")
        if self.folder is not None:
            self.display.line(f"see {self.folder}/: report/index.html, generations.csv, summary.json, checkpoints/")
            self.display.line(f"compare with others by: purerl meta-evaluate {self.folder}")
        return 0

    def _summary(self, columns: dict[str, np.ndarray]) -> dict[str, Any]:
        device, n = jax.devices()[0], len(columns["mean"])
        return {
            "format": FORMAT,
            "objective": self.plan.name,
            "tasks": [task.name for task in self.plan.tasks],
            "generations": n,
            "trainings": self.plan.lifetimes,
            "env_steps": int(columns["env_steps"][-1]),
            "mean_first": float(columns["mean"][0]),
            "mean_last_tenth": float(np.mean(columns["mean"][-max(1, n // 10) :])),
            "best": float(np.max(columns["best"])),
            "wall_seconds": round(time.perf_counter() - self._began, 3),
            "compile_seconds": round(self.notes["compile_seconds"], 3),
            "device": {"platform": device.platform, "kind": device.device_kind},
            "versions": summary.versions(),
        }

    def evolved(self) -> Evolved:
        """Return what was found so far."""
        assert self.kept is not None
        plan, kept = self.plan, self.kept
        first, tree = flatten(plan.candidate)
        center = jnp.asarray(plan.strategy.mean(jax.device_get(kept.state.strategy)))
        known = [
            (int(at), tree(jnp.asarray(frame))) for at, frame in zip(kept.frame_at, kept.frames, strict=True) if at >= 0
        ]
        frames = [*known, (self.generation, tree(center))]
        return Evolved(tree(center), tree(first), frames, self._columns(), plan, self.generation)

    def _columns(self) -> dict[str, np.ndarray]:
        """Return generations.csv, or what would be in it."""
        if self.folder is not None and (self.folder / "generations.csv").exists():
            columns = read(self.folder / "generations.csv")
        else:
            columns = {name: np.array([row[name] for row in self.rows]) for name in (self.rows[0] if self.rows else ())}
        return {name: values[columns["generation"] <= self.generation] for name, values in columns.items()}
