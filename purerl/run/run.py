"""A run: trains all seeds of an algorithm on an environment, logs, evaluates, saves and writes the results."""

import contextlib
import dataclasses
import importlib
import math
import platform
import threading
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from purerl.errors import InputError
from purerl.loop.metrics import EpisodeStatistics, TrainMetrics
from purerl.replay import sizes
from purerl.reporting import summary
from purerl.reporting.display import Snapshot
from purerl.reporting.metrics_csv import FIRST_COLUMNS, Log, read
from purerl.run import checkpoint, program, sizing, tournament
from purerl.run.folders import enter_folder
from purerl.run.lifecycle import LongJob
from purerl.run.plan import (
    Handed,
    Plan,
    algorithm_of,
    make_plan,
    saved_progress,
    saved_settings,
    settings_text,
    told_in_a_line,
)
from purerl.run.program import CAUSES, EVALUATION_BATCH
from purerl.settings import toml
from purerl.settings.runs import Settings
from purerl.xla.trees import where

CHUNK_SECONDS = 0.5  # how long Ctrl-C may have to wait


def start(run: Settings, out: Path | None = None, plain: bool = False, as_many_as_fit: bool = False) -> int:
    """Train from the beginning: what `purerl train` does.

    Args:
      run: the settings.
      out: the folder to make.
      plain: print lines instead of a live panel.
      as_many_as_fit: choose the number of environments by the memory there is.

    Returns:
      The exit code: 0; 1 if every seed failed; 130 if it was interrupted.
    """
    return new_run(run, out, "plain" if plain else "auto", as_many_as_fit).complete()


def resume(folder: Path, plain: bool = False, **devices: Any) -> int:
    """Go on from the newest checkpoint, to the same bits as if the run had never stopped; as `start`.

    Args:
      folder: of the run.
      plain: print lines instead of a live panel.
      devices: `devices` and `mesh` in place of the run's own; where only seeds are spread, the bits stay the same.
    """
    return old_run(folder, "plain" if plain else "auto", **devices).complete()


def new_run(run: Settings, out: Path | None = None, display: str = "auto", as_many_as_fit: bool = False) -> "Run":
    """Return a run at its beginning, in a folder of its own; arguments as for `start`, the display's as its room's."""
    if as_many_as_fit:
        run, line = sizing.largest(run)
        print(line)
    planned = make_plan(run)
    line = _check_memory(planned)
    if line:
        print(line)
    words = (run.algorithm.removeprefix("__main__:"), run.environment.removeprefix("__main__:"))
    folder, _ = enter_folder(toml.RUN, out, words, settings_text(planned))
    return Run(planned, folder, display)


def old_run(folder: Path, display: str = "auto", handed: Handed = Handed(), **devices: Any) -> "Run":
    """Return a run where its newest checkpoint left it; arguments as for `resume`, and the objects that it was made of.

    Raises:
      InputError: if there is no run, or it needs objects that are not handed.
    """
    run = saved_settings(folder, handed)
    run = dataclasses.replace(run, options=dataclasses.replace(run.options, **devices))
    planned = make_plan(run)
    _check_memory(planned)
    return Run(planned, folder, display, go_on=True)


def _check_memory(planned: Plan) -> str | None:
    """Hold what a run keeps to the free memory; return the size of its replay in one line."""
    sizing.check(planned)
    sizing.check_agents(planned)
    run = planned.settings
    return sizes.line(planned.shapes.state.agent, run.config, run.options.seeds)


class Run(LongJob):
    """One run, in one process or several."""

    kind = toml.RUN
    folder: Path

    def __init__(self, planned: Plan, folder: Path, display: str, go_on: bool = False):
        """Take a folder; with `go_on`, continue from its newest checkpoint."""
        run = planned.settings
        names = (run.algorithm, run.environment)
        super().__init__(folder, display, from_python=bool(run.from_python), names=names)
        self.plan = planned
        self.options, self.config = planned.settings.options, planned.settings.config
        self.update = 0
        self.progress: Any = None  # Progress, once there is one
        self.program: Any = None  # likewise
        self.metadata |= {"train_seconds": 0.0, "trained": 0, "rows": 0, "table": 0}
        self.failed: dict[int, tuple[int, int]] = {}  # index of the seed -> (update, cause)
        self.sinks: list[Any] = []  # they write rows of metrics
        self.log: Log | None = None  # one of them
        self.evaluation = np.full(self.options.seeds, np.nan)  # the last ones known
        self.returns = np.full(self.options.seeds, np.nan)
        self._cut_off = (0, 0)  # episodes of the last evaluation that did not end, of how many
        self._chunk = 1  # updates
        self._compiled = not planned.parts.on_host  # a loop on the host compiles in its first update
        self._imports = threading.Thread(target=_import_for_the_end, daemon=True)
        if go_on:
            self._load()

    def _load(self) -> None:
        newest = checkpoint.newest(self.checkpoints)
        if not newest:
            return
        saved = saved_progress(self.plan, self.checkpoints, newest)
        self.take_metadata(saved.metadata)
        self.notices += [saved.changed] if saved.changed else []
        self.update, seeds = newest, self.options.seeds
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
        if self.update < self.plan.num_updates or not (self.folder / "summary.json").exists():
            return ""
        with contextlib.suppress(InputError):  # a damaged summary is written again
            return f"{self.folder} is complete: {self.plan.num_updates:,} updates, {summary.line(self.folder)}"
        return ""

    def done(self) -> bool:
        """Return whether all updates are done, or every seed failed."""
        return self.update >= self.plan.num_updates or self._all_failed()

    def prepare(self) -> None:
        """Compile, start the agents, open the logs, and import what only the end needs while the device is busy."""
        self.program = self.compiled(self._make_program)
        if self.progress is None:
            self.progress = self.program.init()
        self._imports.start()
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
        save = time.monotonic() - self.saved_time > self.options.checkpoint_interval
        return save, min(self._chunk, to_log, self.plan.num_updates - self.update)

    def advance(self, *votes: int) -> None:
        """Take a number of updates."""
        (num,) = votes
        began = time.perf_counter()
        fresh = self.update % self.plan.log_interval == 0
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
        """Release the folder, and what host environments hold."""
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
            from purerl.reporting.tensorboard import Events

            self.sinks.append(Events(self.folder / "tensorboard", self.update, self.progress.interval.algorithm))

    def _all_failed(self) -> bool:
        return len(self.failed) == self.options.seeds

    def _record_failures(self, failed_at: Any, cause: Any) -> None:
        """Record the seeds whose metrics were not finite; they are left out, the others continue."""
        for i in np.flatnonzero(failed_at):
            if int(i) not in self.failed:
                self.failed[int(i)] = (int(failed_at[i]), int(cause[i]))
                self.display.line(self._failure(int(i)))

    def _failure(self, i: int) -> str:
        update, cause = self.failed[i]
        return f"seed {self.options.seed + i} failed at update {update}: {CAUSES[cause]}"

    def _log(self, means: TrainMetrics) -> None:
        """Write a row per seed, evaluating where it is time to."""
        evaluated = self._evaluate_now()
        env_steps, wall = self.update * self.config.steps_per_update, self.wall_seconds()
        rows = []
        for i in range(self.options.seeds):
            if i in self.failed:
                continue
            row: dict[str, Any] = {name: values[i] for name, values in means.flat().items()}
            row["episodes"] = int(row["episodes"])
            row |= {"seed": self.options.seed + i, "update": self.update, "env_steps": env_steps, "wall_seconds": wall}
            row["evaluation_return"] = self.evaluation[i] if evaluated else np.float32(np.nan)
            rows.append(row)
        for sink in self.sinks if rows else []:
            sink.write(rows)
        self._show(means, env_steps, wall)

    def _evaluate_now(self) -> bool:
        """Evaluate if the plan says so; return whether it did."""
        if self.update == self.plan.num_updates:
            parts = math.ceil(self.options.eval_episodes / EVALUATION_BATCH)
            episodes = self.options.eval_episodes
        elif self.options.evaluations and self.update % self.plan.eval_interval == 0:
            parts, episodes = 1, EVALUATION_BATCH
        else:
            return False
        agent = self.progress.state.agent
        results = [self.program.evaluate(agent, self.update, part) for part in range(parts)]
        returns = np.concatenate([result.episode_return for result in results], axis=1)[:, :episodes]
        finished = np.concatenate([result.finished for result in results], axis=1)[:, :episodes]
        self._cut_off = (int((~finished).sum()), finished.size)
        self.evaluation = returns.mean(axis=1, dtype=np.float64).astype(np.float32)
        return True

    def _show(self, means: TrainMetrics, env_steps: int, wall: float) -> None:
        alive = [i for i in range(self.options.seeds) if i not in self.failed]
        new = np.asarray(means.episodes["episode_return"])
        self.returns = np.where(np.isnan(new), self.returns, new)
        trained = self.metadata["trained"] / max(self.metadata["train_seconds"], 1e-9)
        self.display.update(
            Snapshot(
                update=self.update,
                num_updates=self.plan.num_updates,
                env_steps=env_steps,
                total_steps=self.plan.num_updates * self.config.steps_per_update,
                steps_per_second=trained * self.config.steps_per_update * self.options.seeds,
                seconds_left=(self.plan.num_updates - self.update) / trained if trained else math.inf,
                wall_seconds=wall,
                episode_return=self.returns[alive],
                evaluation_return=self.evaluation[alive],
                losses={name: float(np.mean(x[alive])) for name, x in means.algorithm.items() if alive},
            )
        )

    def save(self) -> None:
        """Write a checkpoint, in which a failed seed is as in the last one; none where every seed failed."""
        if self._all_failed():
            return
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
            failed: Any = np.isin(np.arange(len(self.plan.parts.seeds)), list(self.failed))
            state = progress.state
            mixed = where(failed, before.state._replace(num_updates=()), state._replace(num_updates=()))
            progress = progress._replace(state=mixed._replace(num_updates=state.num_updates))
        metadata = self.metadata | {"members": len(self.plan.parts.seeds), "settings": settings_text(self.plan)}
        checkpoint.save(self.checkpoints, self.update, progress, metadata, self.options.keep_checkpoints)

    def finish(self) -> int:
        """Write summary.json, curve.png and report.html, and show the result; return 1 if every seed failed."""
        if not self.first:
            return int(self._all_failed())
        rated = self._rate_selves() if self.options.self_play else []
        self.display.stage("writing the summary and the curve")
        failed = {str(self.options.seed + i): self._failure(i) for i in self.failed}
        rows = self.log is not None and self.log.rows > 0
        if rows:
            from purerl.reporting import report
            from purerl.reporting.plot import plot_run

            columns = read(self.folder / "metrics.csv")
            result = summary.summarize(self.plan.settings, columns, self.plan.num_updates)
            result |= {"status": "failed" if self._all_failed() else "finished", "failed": failed}
            plot_run(self.folder)
            result |= self._timing()
            report.write_report(self.folder, result)
            summary.write(self.folder / "summary.json", result)  # the last: it says complete
            self.display.close()
            self.display.line(f"done: {summary.line(self.folder)}")
            if not columns["episodes"].sum():
                self.display.line("no episode ended in training: its rows have no returns")
            if self._cut_off[0]:
                cut, of = self._cut_off
                self.display.line(f"{cut} of {of} episodes of the last evaluation did not end and were cut off")
            for line in rated:
                self.display.line(line)
        what = (
            "report.html, summary.json, metrics.csv, curve.png, checkpoints/"
            if rows
            else "checkpoints/; there are no rows"
        )
        self.display.line(f"see {self.folder}/: {what}")
        if not self._all_failed():
            return 0
        saved = checkpoint.steps(self.checkpoints)
        last = (
            f"the last good checkpoint is that of update {saved[-1]}" if saved else "no checkpoint had been saved yet"
        )
        self.display.line(f"every seed failed; {last}")
        return 1

    def _rate_selves(self) -> list[str]:
        """Let all selves of a seed play one another and write elo.csv; return it as lines."""
        self.display.stage("earlier selves play one another")
        _, config = algorithm_of(self.plan.settings, self.plan.env)
        agents, rows = jax.device_get(self.progress.state.agent), []
        for i in range(self.options.seeds):
            if i not in self.failed:
                agent = jax.tree.map(lambda x, i=i: x[i], agents)
                rows += tournament.table(self.plan.env, config, agent, self.options.seed + i)
        return tournament.write(rows, self.folder / "elo.csv")

    def _timing(self) -> dict[str, Any]:
        device = jax.devices()[0]
        steps = self.metadata["trained"] * self.config.steps_per_update * self.options.seeds
        return {
            "env_steps_per_second": round(steps / self.metadata["train_seconds"], 1),
            "train_seconds": round(self.metadata["train_seconds"], 3),
            "compile_seconds": round(self.metadata["compile_seconds"], 3),
            "wall_seconds": round(self.wall_seconds(), 3),
            "device": {"platform": device.platform, "kind": device.device_kind, "host": platform.machine()},
            "versions": summary.versions(),
        }


def _import_for_the_end() -> None:
    for name in ("orbax.checkpoint.experimental.v1", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        importlib.import_module(name)
