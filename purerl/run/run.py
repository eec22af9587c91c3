"""A run: trains all seeds of an algorithm on an environment, logs, evaluates, saves and writes the results."""

import contextlib
import math
import threading
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from purerl.devices import distributed
from purerl.loop.metrics import EpisodeStatistics, TrainMetrics, with_unknown
from purerl.reporting import sinks
from purerl.reporting.metrics_csv import FIRST_COLUMNS, Log
from purerl.run import checkpoint, results
from purerl.run.callbacks import Callback, View, film, mean, stop_at_return
from purerl.run.environments import told_in_a_line
from purerl.run.failures import FailedSeeds
from purerl.run.lifecycle import LongJob
from purerl.run.plan import Plan, saved_progress, settings_text
from purerl.run.program import EVALUATION_BATCH, Program, Wanted, with_failed
from purerl.settings import toml

CHUNK_SECONDS = 0.5  # how long Ctrl-C may have to wait


class Run(LongJob):
    """One run, in one process or several."""

    kind = toml.RUN
    folder: Path

    def __init__(
        self, planned: Plan, folder: Path, display: str, go_on: bool = False, callbacks: tuple[Callback, ...] = ()
    ):
        """Take a folder; with `go_on`, resume from its newest checkpoint."""
        run = planned.settings
        names = (run.algorithm, run.environment)
        super().__init__(folder, display, from_python=bool(run.from_python), names=names)
        self.plan, self.options, self.config = planned, run.options, run.config
        self.update = 0
        self.progress: Any = None  # a `Progress`, once there is one
        self.program: Any = None  # a `Program`, once it is compiled
        self.metadata |= {"train_seconds": 0.0, "trained": 0, "rows": 0, "table": 0, "logged": -1}
        self.callbacks = list(callbacks)
        self.ended = ""  # why the run ends before its last update
        self.save_soon = False  # whether a callback asked for a checkpoint
        self.best = checkpoint.best_return(self.checkpoints) if go_on else -math.inf
        self.changed = ""  # the settings that differ from the checkpoint's when it resumes
        self.failed = FailedSeeds(self.options.seed, self.options.seeds)
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
        self.changed, self.update, seeds = saved.changed, newest, self.options.seeds
        self.ended = "" if saved.changed else str(saved.metadata.get("ended", ""))[:200]
        self._record_failures(saved.progress.failed_at[:seeds], saved.progress.cause[:seeds])
        self.progress = self.plan.parts.placed(saved.progress)

    @property
    def position(self) -> int:
        """The number of updates."""
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
        """Return the result in one line if an earlier process finished the run."""
        return results.finished_line(self)

    @property
    def length_changed(self) -> bool:
        """Whether the run's length differs from that in its checkpoint."""
        return "total_timesteps " in self.changed

    def done(self) -> bool:
        """Return whether all updates are done, every seed failed, or a callback ended the run."""
        return self.update >= self.plan.num_updates or self.failed.all or bool(self.ended)

    def prepare(self) -> None:
        """Compile, start the agents, open the logs, and import packages for the end while the device is busy."""
        self.program = self.compiled(self._make_program)
        if self.progress is None:
            self.progress = self.program.init()
        self._imports.start()
        options, of = self.options, self.plan
        if options.stop_at_return is not None:
            self.callbacks.append(stop_at_return(options.stop_at_return))
        if options.video_interval:
            own = film(options.video_interval, of.stage, of.trainer.algorithm, options.seed, self.update)
            self.callbacks.append(own)
        if self.first:
            self._open_sinks()

    def _make_program(self) -> Program:
        begins, stopped, say = self.progress is None, lambda: bool(self.stop.signal), self.display.line
        wanted = Wanted(init=begins, interrupted=stopped, failures=self.folder, say=say)
        with told_in_a_line(self.plan.settings.environment):
            return self.plan.parts.compile(self.plan.shapes, wanted)

    def votes(self) -> tuple[int, ...]:
        """Return (whether to save, the updates of the next chunk)."""
        to_log = self.plan.log_interval - self.update % self.plan.log_interval
        save = self.save_soon or time.monotonic() - self.saved_time > self.options.checkpoint_interval
        self.save_soon = False
        return save, min(self._chunk, to_log, self.plan.num_updates - self.update)

    def advance(self, *votes: int) -> None:
        """Take this many updates."""
        (num,) = votes
        began = time.perf_counter()
        logged = self.metadata["logged"]
        fresh = self.update == logged if logged >= 0 else self.update % self.plan.log_interval == 0
        self.progress, result = self.program.advance(self.progress, num, fresh)
        seconds = time.perf_counter() - began
        self.update += num
        ends = self.update == self.plan.num_updates
        if self._compiled or ends:
            self.metadata["train_seconds"] += seconds
            self.metadata["trained"] += num
            self._chunk = max(1, int(CHUNK_SECONDS * num / seconds))
        else:
            self.metadata["compile_seconds"] += seconds
        self._compiled = True
        self._record_failures(result.failed_at, result.cause)
        if ends or self.update % self.plan.log_interval == 0:
            self._log(result.metrics)

    def close_logs(self) -> None:
        """Close the logs."""
        for sink in self.sinks:
            sink.close()

    def close(self) -> None:
        """Release the folder, the log, and host environments."""
        if self.log is not None:
            with contextlib.suppress(OSError):  # the run has said so, or said something worse
                self.log.close()
        if self.program is not None:
            self.program.close()
        super().close()
        if self._imports.is_alive():
            self._imports.join()  # the interpreter must not end while a thread imports

    def _open_sinks(self) -> None:
        interval = self.plan.shapes.interval
        episodes = jax.eval_shape(EpisodeStatistics.summary, interval.statistics)
        others = {*episodes, *interval.algorithm} - set(FIRST_COLUMNS)
        path, tell = self.folder / "metrics.csv", self.display.line
        rows, checksum = int(self.metadata["rows"]), int(self.metadata["table"])
        self.log = Log(path, self.update, others=sorted(others), rows=rows, checksum=checksum, tell=tell)
        run, names = lambda: toml.flat(settings_text(self.plan)), interval.algorithm
        more = sinks.open_trackers(self.options, self.folder, self.update, algorithm=names, settings=run, tell=tell)
        self.sinks = [self.log, *more]

    @property
    def env_steps(self) -> int:
        """Environment steps that each seed has taken."""
        return self.update * self.config.steps_per_update

    def _record_failures(self, failed_at: ArrayLike, causes: ArrayLike) -> None:
        """Record and show the seeds whose loss or parameters were not finite."""
        for seed in self.failed.add(failed_at, causes):
            self.display.line(seed.told(self.plan.shapes.interval.algorithm))

    def _log(self, means: TrainMetrics) -> None:
        """Write a row per seed; evaluate if it is due, and call the callbacks."""
        means = with_unknown(means)
        evaluated = self._evaluate_now()
        self._call_back(means, evaluated)
        if self.ended and self.update < self.plan.num_updates:
            self._evaluate(self.options.eval_episodes)
            evaluated = True
        if evaluated and self.options.keep_best:
            self._keep_best()
        self.metadata["logged"] = self.update
        wall, rows = self.wall_seconds(), []
        for i in self.failed.alive:
            row: dict[str, Any] = {name: values[i] for name, values in means.flat().items()}
            row |= {"seed": self.options.seed + int(i), "update": self.update, "env_steps": self.env_steps}
            row |= {"wall_seconds": wall, "episodes": int(row["episodes"])}
            row["evaluation_return"] = self.evaluation[i] if evaluated else np.float32(np.nan)
            rows.append(row)
        for sink in self.sinks if rows else []:
            sink.write(rows)
        new = means.episodes["episode_return"]
        self.returns = np.where(np.isnan(new), self.returns, new)
        self.display.update(results.status(self, means.algorithm, wall))

    def _evaluate_now(self) -> bool:
        """Evaluate if it is due; return whether it was."""
        last = self.update == self.plan.num_updates
        if last or (self.options.evaluations and self.update % self.plan.eval_interval == 0):
            self._evaluate(self.options.eval_episodes if last else EVALUATION_BATCH)
            return True
        return False

    def _evaluate(self, episodes: int) -> None:
        played = self.program.play(self.progress.state.agent, self.update, episodes)
        self.cut_off = (int((~played.finished).sum()), played.finished.size)
        self.evaluation = played.episode_return.mean(axis=1, dtype=np.float64).astype(np.float32)

    def _call_back(self, means: TrainMetrics, evaluated: bool) -> None:
        """Call the callbacks in the first process; all processes end the run together."""
        if not self.callbacks:
            return
        view = View(self)
        if self.first:
            seeds, failed = self.options.seeds, self.failed.mask()
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
        """Save a checkpoint if the mean evaluation return is the highest so far."""
        reached = mean(self.evaluation[self.failed.alive])
        if not reached > self.best:
            return
        try:
            self._write(checkpoint.best_folder(self.checkpoints), 1, evaluation_return=reached)
            self.best = reached
        except (checkpoint.SaveError, OSError) as error:
            if distributed.several():
                raise
            self.display.line(f"the best checkpoint is not kept: {error}")

    def save(self) -> None:
        """Write a checkpoint, in which failed seeds stay as in the last one; none if every seed failed."""
        if not self.failed.all:
            self._write(self.checkpoints, self.options.keep_checkpoints)

    def _write(self, folder: Path, keep: int, **notes: float) -> None:
        self.metadata["wall_seconds"] = self.wall_seconds()
        self.metadata["rows"] = self.log.rows if self.log is not None else 0
        self.metadata["table"] = self.log.checksum if self.log is not None else 0
        progress = self.progress
        if self.failed.found:
            saved, before = checkpoint.steps(self.checkpoints), None
            if saved:
                before = self.plan.parts.placed(saved_progress(self.plan, self.checkpoints, saved[-1]).progress)
            progress = with_failed(
                progress, before or self.program.init(), self.failed.mask(len(self.plan.parts.seeds))
            )
        about = {"members": len(self.plan.parts.seeds), "settings": settings_text(self.plan), "ended": self.ended}
        checkpoint.save(folder, self.update, progress, self.metadata | about | notes, keep)

    def finish(self) -> int:
        """Write summary.json, curve.png and report.html, and show the result; return 1 if every seed failed."""
        if self.first:
            results.write(self)
        return int(self.failed.all)
