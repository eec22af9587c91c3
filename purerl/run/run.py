"""A run: trains all seeds of an algorithm on an environment, logs, evaluates, saves and writes the results."""

import contextlib
import math
import threading
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from purerl.devices import distributed
from purerl.errors import InputError
from purerl.loop.metrics import EpisodeStatistics, TrainMetrics
from purerl.reporting import sinks, summary
from purerl.reporting.metrics_csv import FIRST_COLUMNS, Log
from purerl.run import checkpoint, program, results
from purerl.run.callbacks import Callback, View, film, mean, stop_at_return
from purerl.run.lifecycle import LongJob
from purerl.run.plan import Plan, saved_progress, settings_text, told_in_a_line
from purerl.run.program import CAUSES, EVALUATION_BATCH
from purerl.settings import toml
from purerl.xla.trees import where

CHUNK_SECONDS = 0.5  # how long Ctrl-C may have to wait


class Run(LongJob):
    """One run, in one process or several."""

    kind = toml.RUN
    folder: Path

    def __init__(
        self,
        planned: Plan,
        folder: Path,
        display: str,
        go_on: bool = False,
        callbacks: tuple[Callback, ...] = (),
    ):
        """Take a folder; with `go_on`, continue from its newest checkpoint."""
        run = planned.settings
        names = (run.algorithm, run.environment)
        super().__init__(folder, display, from_python=bool(run.from_python), names=names)
        self.plan = planned
        self.options, self.config = planned.settings.options, planned.settings.config
        self.update = 0
        self.progress: Any = None  # Progress, once there is one
        self.program: Any = None  # likewise
        self.metadata |= {"train_seconds": 0.0, "trained": 0, "rows": 0, "table": 0, "logged": -1}
        level = self.options.stop_at_return
        self._wanted = (*callbacks, *([] if level is None else [stop_at_return(level)]))
        self.callbacks: tuple[Callback, ...] = ()
        self.ended = ""  # why the run ends before its last update
        self.save_soon = False  # whether a callback asked for a checkpoint
        self.best = checkpoint.best_return(self.checkpoints) if go_on else -math.inf
        self._changed = ""  # the settings with which it goes on and that are others
        self.failed: dict[int, tuple[int, int]] = {}  # index of the seed -> (update, cause)
        self.sinks: list[sinks.Sink] = []
        self.log: Log | None = None  # one of them
        self.evaluation = np.full(self.options.seeds, np.nan)  # the last ones known
        self.returns = np.full(self.options.seeds, np.nan)
        self.cut_off = (0, 0)  # episodes of the last evaluation that did not end, of how many
        self._chunk = 1  # updates
        self._compiled = planned.parts.pure  # a loop in Python compiles in its first update
        self._imports = threading.Thread(target=results.import_packages, daemon=True)
        if go_on:
            with self.released_on_error():
                self._load()

    def _load(self) -> None:
        newest = checkpoint.newest(self.checkpoints)
        if not newest:
            return
        saved = saved_progress(self.plan, self.checkpoints, newest)
        self.take_metadata(saved.metadata)
        self.notices += [saved.changed] if saved.changed else []
        self._changed = saved.changed
        self.update, seeds = newest, self.options.seeds
        self.ended = "" if saved.changed else str(saved.metadata.get("ended", ""))
        self._record_failures(saved.progress.failed_at[:seeds], saved.progress.cause[:seeds])
        self.progress = self.plan.parts.placed(saved.progress)

    @property
    def position(self) -> int:
        """Updates."""
        return self.update

    def progress_text(self) -> str:
        """Return how far the run is."""
        return f"update {self.update:,} of {self.plan.num_updates:,}"

    def title(self) -> str:
        """Return the title of the display."""
        run, used = self.plan.settings, self.plan.parts.mesh.devices
        seeds = f"seed {run.options.seed}" if run.options.seeds == 1 else f"{run.options.seeds} seeds"
        on = used.flat[0].platform + (f" x {used.size}" if used.size > 1 else "")
        return f"{run.algorithm} on {run.environment}, {seeds}, {int(run.config.total_timesteps):,} steps, {on}"

    def already_finished(self) -> str:
        """Return the result's line where an earlier process finished the run."""
        if not (self.folder / "summary.json").exists():
            return ""
        with contextlib.suppress(InputError):  # a damaged summary is written again
            found = summary.read(self.folder / "summary.json")
            whole = self.update >= self.plan.num_updates
            here = found.get("env_steps") == self.env_steps
            early = str(found.get("ended_early") or "") if here and not self._changed else ""
            if whole or early:
                why = f" ({early})" if early else ""
                return f"{self.folder} is complete{why}: {self.update:,} updates, {summary.line(self.folder)}"
        return ""

    def length_changed(self) -> bool:
        """Return whether the run is to be of another length than when its checkpoint was made."""
        return "total_timesteps " in self._changed

    def done(self) -> bool:
        """Return whether all updates are done, every seed failed, or a callback ended the run."""
        return self.update >= self.plan.num_updates or self.all_failed or bool(self.ended)

    def prepare(self) -> None:
        """Compile, start the agents, open the logs, and import what only the end needs while the device is busy."""
        self.program = self.compiled(self._make_program)
        if self.progress is None:
            self.progress = self.program.init()
        self._imports.start()
        every, of = self.options.video_interval, self.plan
        films = [film(every, of.stage, of.trainer.algorithm, self.options.seed, self.update)] if every else []
        self.callbacks = (*self._wanted, *films)
        if self.first:
            self._open_sinks()

    def _make_program(self) -> program.Program:
        wanted = program.Wanted(
            init=self.progress is None,
            interrupted=lambda: bool(self.stop.signal),
            failures=self.folder,
            say=self.display.line,
        )
        with told_in_a_line(self.plan.settings.environment):
            return self.plan.parts.compile(self.plan.shapes, wanted)

    def votes(self) -> tuple[int, ...]:
        """Return (whether to save, the updates of the next chunk)."""
        to_log = self.plan.log_interval - self.update % self.plan.log_interval
        save = self.save_soon or time.monotonic() - self.saved_time > self.options.checkpoint_interval
        self.save_soon = False
        return save, min(self._chunk, to_log, self.plan.num_updates - self.update)

    def advance(self, *votes: int) -> None:
        """Take a number of updates."""
        (num,) = votes
        began = time.perf_counter()
        logged = self.metadata["logged"]
        fresh = self.update == logged if logged >= 0 else self.update % self.plan.log_interval == 0
        self.progress, result = self.program.advance(self.progress, num, fresh)
        seconds = time.perf_counter() - began
        self.update += num
        if self._compiled or self.plan.num_updates == self.update:
            self.metadata["train_seconds"] += seconds
            self.metadata["trained"] += num
            self._chunk = max(1, int(CHUNK_SECONDS * num / seconds))
        else:
            self.metadata["compile_seconds"] += seconds
        self._compiled = True
        self._record_failures(result.failed_at, result.cause)
        if self.update % self.plan.log_interval == 0 or self.update == self.plan.num_updates:
            self._log(result.metrics)

    def close_logs(self) -> None:
        """Close the logs, and wait for the imports."""
        for sink in self.sinks:
            sink.close()
        self._imports.join()

    def close(self) -> None:
        """Release the folder and the table, and what host environments hold."""
        if self.log is not None:
            with contextlib.suppress(OSError):  # the run has said so, or said something worse
                self.log.close()
        if self.program is not None:
            self.program.close()
        super().close()

    def _open_sinks(self) -> None:
        interval = self.plan.shapes.interval
        episodes = jax.eval_shape(EpisodeStatistics.summary, interval.statistics)
        others = {*episodes, *interval.algorithm} - set(FIRST_COLUMNS)
        path, tell = self.folder / "metrics.csv", self.display.line
        rows, checksum = int(self.metadata["rows"]), int(self.metadata["table"])
        self.log = Log(path, self.update, others=sorted(others), rows=rows, checksum=checksum, tell=tell)
        self.sinks.append(self.log)
        if self.options.tensorboard:
            self.sinks.append(sinks.TensorBoard(self.folder, self.update, self.progress.interval.algorithm, tell))
        run = toml.flat(settings_text(self.plan)) if self.options.wandb or self.options.mlflow else {}
        if self.options.wandb is not None:
            self.sinks.append(sinks.WandB(self.options.wandb, self.folder, run, tell))
        if self.options.mlflow:
            self.sinks.append(sinks.MLflow(self.folder, run, tell))

    @property
    def env_steps(self) -> int:
        """Environment steps that each seed has taken."""
        return self.update * self.config.steps_per_update

    @property
    def alive(self) -> np.ndarray:
        """The indices of the seeds that did not fail, ascending."""
        return np.flatnonzero(~self._failed_of(self.options.seeds))

    @property
    def all_failed(self) -> bool:
        """Whether every seed failed."""
        return len(self.failed) == self.options.seeds

    def _failed_of(self, members: int) -> np.ndarray:
        return np.isin(np.arange(members), list(self.failed))

    def _record_failures(self, failed_at: Any, cause: Any) -> None:
        """Record the seeds whose metrics were not finite; they are left out, the others continue."""
        for i in np.flatnonzero(failed_at):
            if int(i) not in self.failed:
                self.failed[int(i)] = (int(failed_at[i]), int(cause[i]))
                self.display.line(self.failure(int(i)))

    def failure(self, i: int) -> str:
        """Return in a line why the seed of an index failed."""
        update, cause = self.failed[i]
        return f"seed {self.options.seed + i} failed at update {update}: {CAUSES[cause]}"

    def _log(self, means: TrainMetrics) -> None:
        """Write a row per seed, evaluating where it is time to, and calling the callbacks."""
        evaluated = self._evaluate_now()
        self._call_back(means, evaluated)
        if self.ended and self.update < self.plan.num_updates:
            self._evaluate(self.options.eval_episodes)
            evaluated = True
        if evaluated and self.options.keep_best:
            self._keep_best()
        self.metadata["logged"] = self.update
        wall, rows = self.wall_seconds(), []
        for i in self.alive:
            row: dict[str, Any] = {name: values[i] for name, values in means.flat().items()}
            row["episodes"] = int(row["episodes"])
            row |= {"seed": self.options.seed + int(i), "update": self.update, "env_steps": self.env_steps}
            row |= {"wall_seconds": wall, "evaluation_return": self.evaluation[i] if evaluated else np.float32(np.nan)}
            rows.append(row)
        for sink in self.sinks if rows else []:
            sink.write(rows)
        new = means.episodes["episode_return"]
        self.returns = np.where(np.isnan(new), self.returns, new)
        self.display.update(results.status(self, means.algorithm, wall))

    def _evaluate_now(self) -> bool:
        """Evaluate if the plan says so; return whether it did."""
        if self.update == self.plan.num_updates:
            self._evaluate(self.options.eval_episodes)
        elif self.options.evaluations and self.update % self.plan.eval_interval == 0:
            self._evaluate(EVALUATION_BATCH)
        else:
            return False
        return True

    def _evaluate(self, episodes: int) -> None:
        agent, parts = self.progress.state.agent, math.ceil(episodes / EVALUATION_BATCH)
        results = [self.program.evaluate(agent, self.update, part) for part in range(parts)]
        returns = np.concatenate([result.episode_return for result in results], axis=1)[:, :episodes]
        finished = np.concatenate([result.finished for result in results], axis=1)[:, :episodes]
        self.cut_off = (int((~finished).sum()), finished.size)
        self.evaluation = returns.mean(axis=1, dtype=np.float64).astype(np.float32)

    def _call_back(self, means: TrainMetrics, evaluated: bool) -> None:
        """Call the callbacks, in the first process; all processes end the run together."""
        if not self.callbacks:
            return
        view = View(self)
        if self.first:
            seeds, failed = self.options.seeds, self._failed_of(self.options.seeds)
            metrics = {name: np.array(values, np.float32) for name, values in means.flat().items()}
            metrics["evaluation_return"] = self.evaluation if evaluated else np.full(seeds, np.nan, np.float32)
            metrics = {name: np.where(failed, np.float32(np.nan), values) for name, values in metrics.items()}
            metrics["seed"] = np.array(self.plan.parts.seeds[:seeds])
            metrics["env_steps"] = np.full(seeds, self.env_steps)
            for callback in self.callbacks:
                callback(self.update, dict(metrics), view)
        view.close()
        if distributed.agree(view.stopped is not None)[0].any():
            self.ended = view.stopped or "the first process asked for it"

    def _keep_best(self) -> None:
        """Keep a checkpoint where the mean evaluation return is the highest so far."""
        reached = mean(self.evaluation[self.alive])
        if not reached > self.best:
            return
        self.best = reached
        try:
            self._write(checkpoint.best_folder(self.checkpoints), 1, evaluation_return=reached)
        except (checkpoint.SaveError, OSError) as error:
            if distributed.several():
                raise
            self.display.line(f"the best checkpoint is not kept: {error}")

    def save(self) -> None:
        """Write a checkpoint, in which a failed seed is as in the last one; none where every seed failed."""
        if not self.all_failed:
            self._write(self.checkpoints, self.options.keep_checkpoints)

    def _write(self, folder: Path, keep: int, **notes: float) -> None:
        self.metadata["wall_seconds"] = self.wall_seconds()
        self.metadata["rows"] = self.log.rows if self.log is not None else 0
        self.metadata["table"] = self.log.checksum if self.log is not None else 0
        progress = self.progress
        if self.failed:
            saved = checkpoint.steps(self.checkpoints)
            if saved:
                before = self.plan.parts.placed(saved_progress(self.plan, self.checkpoints, saved[-1]).progress)
            else:
                before = self.program.init()
            failed: Any = self._failed_of(len(self.plan.parts.seeds))
            state = progress.state
            mixed = where(failed, before.state._replace(num_updates=()), state._replace(num_updates=()))
            progress = progress._replace(state=mixed._replace(num_updates=state.num_updates))
        about = {"members": len(self.plan.parts.seeds), "settings": settings_text(self.plan), "ended": self.ended}
        checkpoint.save(folder, self.update, progress, self.metadata | about | notes, keep)

    def finish(self) -> int:
        """Write summary.json, curve.png and report.html, and show the result; return 1 if every seed failed."""
        if self.first:
            results.write(self)
        return int(self.all_failed)
