"""A run's life on the host: compile, advance in chunks, log, evaluate, save, stop and go on.

Everything that decides a number happens on the device and depends on the update alone, never on how a run was cut into
chunks: a run that was killed and resumed gives the same bits as one that was not.
"""

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

from purerl.devices import distributed
from purerl.host_environment import EnvironmentFailure
from purerl.loop.metrics import TrainMetrics
from purerl.replay import sizes
from purerl.run import checkpoint, policies, program, sizing, summary, tournament
from purerl.run.config import Settings, dump
from purerl.run.display import Silent, Snapshot, duration, open_display
from purerl.run.interrupt import Stop
from purerl.run.metrics_csv import Log, read
from purerl.run.plan import Plan, lock, make_plan, new_folder, saved_progress, saved_settings
from purerl.run.program import CAUSES, EVALUATION_BATCH
from purerl.xla.trees import where

CHUNK_SECONDS = 0.5  # how long Ctrl-C may have to wait


def start(run: Settings, out: Path | None = None, plain: bool = False, as_many_as_fit: bool = False) -> int:
    """Train from the beginning.

    Args:
      run: the settings.
      out: the folder to make.
      plain: print lines instead of a live panel.
      as_many_as_fit: choose the number of environments by the memory there is.

    Returns:
      The exit code: 0; 1 if every seed failed; 130 if it was interrupted.
    """
    if as_many_as_fit:
        run, line = sizing.largest(run)
        print(line)
    planned = make_plan(run)
    sizing.check(planned)
    told = sizes.line(planned.shapes.state.agent, run.config, run.options.seeds)
    if told:
        print(told)

    def make_folder() -> str:
        folder = new_folder(out, run.algorithm, run.environment)
        (folder / "config.toml").write_text(dump(planned.settings, planned.env), encoding="utf-8")
        return str(folder)

    return Run(planned, Path(distributed.first_does(make_folder)), plain).complete()


def resume(folder: Path, plain: bool = False, **devices: Any) -> int:
    """Go on from the newest checkpoint, to the same bits as if the run had never stopped; as `start`.

    Args:
      folder: of the run.
      plain: print lines instead of a live panel.
      devices: `devices` and `mesh` in place of the run's own; where only seeds are spread, the bits stay the same.
    """
    run = saved_settings(folder)
    run = dataclasses.replace(run, options=dataclasses.replace(run.options, **devices))
    return Run(make_plan(run), folder, plain, go_on=True).complete()


class Run:
    """One run, in one process or several."""

    def __init__(self, planned: Plan, folder: Path, plain: bool, go_on: bool = False):
        """Take a folder; with `go_on`, what its newest checkpoint says."""
        self.plan, self.folder = planned, folder
        self.options, self.config = planned.settings.options, planned.settings.config
        self.checkpoints = folder / "checkpoints"
        self.update = 0
        self.progress: Any = None  # Progress, once there is one
        self.program: Any = None  # likewise
        self.notes = {"wall_seconds": 0.0, "train_seconds": 0.0, "trained": 0, "compile_seconds": 0.0}
        self.failed: dict[int, tuple[int, int]] = {}  # index of the seed -> (update, cause)
        self.first = distributed.is_first()
        self._lock = None
        distributed.first_does(self._take_folder)
        if go_on:
            self._load()
        self.plain = plain
        self.evaluation = np.full(self.options.seeds, np.nan)  # the last ones known
        self.returns = np.full(self.options.seeds, np.nan)

    def _take_folder(self) -> str:
        self._lock = lock(self.folder)
        checkpoint.remove_unfinished(self.checkpoints)
        return ""

    def _load(self) -> None:
        newest = checkpoint.newest(self.checkpoints)
        if not newest:
            return
        found, self.notes = saved_progress(self.plan, self.checkpoints, newest)
        self.update = newest
        self._note_failures(found.failed_at, found.cause)
        self.progress = self.plan.parts.placed(found)

    def complete(self) -> int:
        """Train to the end, or until a signal, and write the results; return the exit code."""
        title = _title(self.plan)
        self.display: Any = Silent()
        if self.update >= self.plan.num_updates and (self.folder / "summary.json").exists():
            self._release()
            if self.first:
                print(f"{self.folder} is complete: {self.plan.num_updates:,} updates, {summary.line(self.folder)}")
            return 0
        if self.first:
            self.display = open_display(title, self.plain)
        try:
            with Stop() as self.stop, distributed.watched(self._lost):
                self._compile()
                self._prepare_imports()
                self.sinks = self._open_sinks() if self.first else []
                self._train()
                return self._finish()
        except KeyboardInterrupt:
            self.display.close()
            print(f"interrupted; the last checkpoint is kept, go on with:\n  purerl train --resume {self.folder}")
            raise
        except EnvironmentFailure as error:
            self.display.close()
            self.display.line(
                f"{error}\nthe last checkpoint is kept, go on with:\n  purerl train --resume {self.folder}"
            )
            return 1
        finally:
            self.display.close()
            self._release()

    def _lost(self, why: str) -> None:
        self.display.close()
        distributed.give_up(why, f"purerl train --resume {self.folder}")

    def _release(self) -> None:
        if self.program is not None:
            self.program.close()
        if self._lock is not None:
            self._lock.close()

    def _compile(self) -> None:
        self.display.stage("compiling")
        began = time.perf_counter()
        self.program = self._make_program()
        seconds = time.perf_counter() - began
        self.notes["compile_seconds"] += seconds
        self.display.line(f"compiled in {duration(seconds)}; writing {self.folder}")
        self._began = time.perf_counter() - self.notes["wall_seconds"]
        if self.progress is None:
            self.progress = self.program.init()

    def _make_program(self) -> program.Program:
        wanted = program.Wanted(
            init=self.progress is None,
            interrupted=lambda: bool(self.stop.signal),
            failures=self.folder,
            say=self.display.line,
        )
        return self.plan.parts.compile(self.plan.shapes, wanted)

    def _prepare_imports(self) -> None:
        """Load what only the end needs while the device is busy."""
        slow = ("orbax.checkpoint.experimental.v1", "matplotlib.figure", "matplotlib.backends.backend_agg")
        self._imports = threading.Thread(target=lambda: [importlib.import_module(name) for name in slow], daemon=True)
        self._imports.start()

    def _train(self) -> None:
        last_saved = time.monotonic()
        chunk, saved_at = 1, self.update
        compiled = not self.plan.parts.on_host  # a loop on the host compiles in its first update
        while self.update < self.plan.num_updates and not self._all_failed():
            to_log = self.plan.log_interval - self.update % self.plan.log_interval
            save = time.monotonic() - last_saved > self.options.checkpoint_interval
            said = distributed.agree(min(chunk, to_log, self.plan.num_updates - self.update), save, self.stop.signal)
            num, save = said[0, :2].tolist()  # what the clock decides, the first process's clock does
            if save and self.update > saved_at:
                self._save()
                last_saved, saved_at = time.monotonic(), self.update
            self.stop.signal = int(said[:, 2].max())
            if self.stop.signal:
                break
            began = time.perf_counter()
            fresh = self.update % self.plan.log_interval == 0
            self.progress, done = self.program.advance(self.progress, num, fresh)
            seconds = time.perf_counter() - began
            self.update += num
            if compiled or self.plan.num_updates == self.update:
                self.notes["train_seconds"] += seconds
                self.notes["trained"] += num
                chunk = max(1, int(CHUNK_SECONDS * num / seconds))
            else:
                self.notes["compile_seconds"] += seconds
            compiled = True
            self._note_failures(done.failed_at, done.cause)
            if self.update % self.plan.log_interval == 0 or self.update == self.plan.num_updates:
                self._log(done.metrics)
        if self.update > saved_at and not self._all_failed():
            self._save()

    def _open_sinks(self) -> list[Any]:
        """Return what takes rows."""
        sinks: list[Any] = [Log(self.folder / "metrics.csv", self.update)]
        if self.options.tensorboard:
            from purerl.run.tensorboard import Events

            sinks.append(Events(self.folder / "tensorboard", self.update, self.progress.interval.algorithm))
        return sinks

    def _all_failed(self) -> bool:
        return len(self.failed) == self.options.seeds

    def _note_failures(self, failed_at: Any, cause: Any) -> None:
        """Tell of seeds whose metrics were not finite; they stop counting, the others go on."""
        for i in np.flatnonzero(failed_at):
            if int(i) not in self.failed:
                self.failed[int(i)] = (int(failed_at[i]), int(cause[i]))
                if hasattr(self, "display"):
                    self.display.line(self._failure(int(i)))

    def _failure(self, i: int) -> str:
        update, cause = self.failed[i]
        return f"seed {self.options.seed + i} failed at update {update}: {CAUSES[cause]}"

    def _log(self, means: TrainMetrics) -> None:
        """Write a row per seed, evaluating where it is time to."""
        evaluated = self._evaluate_now()
        env_steps, wall = self.update * self.config.steps_per_update, time.perf_counter() - self._began
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
        results = [self.program.evaluate(agent, self.update, part).episode_return for part in range(parts)]
        returns = np.concatenate(results, axis=1)[:, :episodes]
        self.evaluation = returns.mean(axis=1, dtype=np.float64).astype(np.float32)
        return True

    def _show(self, means: TrainMetrics, env_steps: int, wall: float) -> None:
        alive = [i for i in range(self.options.seeds) if i not in self.failed]
        new = np.asarray(means.episodes["episode_return"])
        self.returns = np.where(np.isnan(new), self.returns, new)
        trained = self.notes["trained"] / max(self.notes["train_seconds"], 1e-9)
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

    def _save(self) -> None:
        """Write a checkpoint; a failed seed is kept as the last checkpoint has it."""
        self.notes["wall_seconds"] = time.perf_counter() - self._began
        progress = self.progress
        if self.failed:
            found = checkpoint.steps(self.checkpoints)
            if found:
                before, _ = saved_progress(self.plan, self.checkpoints, found[-1])
                before = self.plan.parts.placed(before)
            else:
                before = self.program.init()
            gone: Any = np.isin(np.arange(len(self.plan.parts.seeds)), list(self.failed))
            state = progress.state
            mixed = where(gone, before.state._replace(num_updates=()), state._replace(num_updates=()))
            progress = progress._replace(state=mixed._replace(num_updates=state.num_updates))
        notes = self.notes | {"lanes": len(self.plan.parts.seeds)}
        checkpoint.save(self.checkpoints, self.update, progress, notes, self.options.keep_checkpoints)

    def _finish(self) -> int:
        """Write summary.json and curve.png, and say how it went; return the exit code."""
        for sink in self.sinks:
            sink.close()
        self._imports.join()
        if self.stop.signal:
            self.display.close()
            self.display.line(f"stopped at update {self.update:,} of {self.plan.num_updates:,}; go on with:")
            self.display.line(f"  purerl train --resume {self.folder}")
            return 128 + self.stop.signal
        if not self.first:
            return int(self._all_failed())
        rated = self._rate_selves() if self.options.self_play else []
        self.display.stage("writing the summary and the curve")
        failed = {str(self.options.seed + i): self._failure(i) for i in self.failed}
        rows = (self.folder / "metrics.csv").stat().st_size > 0
        if rows:
            from purerl.run.plot import plot_run

            columns = read(self.folder / "metrics.csv")
            result = summary.summarize(self.plan.settings, columns, self.plan.num_updates)
            result |= {"status": "failed" if self._all_failed() else "finished", "failed": failed}
            summary.write(self.folder / "summary.json", result | self._timing())
            plot_run(self.folder)
            self.display.close()
            self.display.line(f"done: {summary.line(self.folder)}")
            for line in rated:
                self.display.line(line)
        self.display.line(f"see {self.folder}/: summary.json, metrics.csv, curve.png, checkpoints/" if rows else "")
        if not self._all_failed():
            return 0
        kept = checkpoint.steps(self.checkpoints)
        told = f"the last good checkpoint is that of update {kept[-1]}" if kept else "no checkpoint had been saved yet"
        self.display.line(f"every seed failed; {told}")
        return 1

    def _rate_selves(self) -> list[str]:
        """Let all selves of a seed play one another and write elo.csv; return it as lines."""
        self.display.stage("earlier selves play one another")
        _, config = policies.assemble(self.plan.settings, self.plan.env)
        agents, rows = jax.device_get(self.progress.state.agent), []
        for i in range(self.options.seeds):
            if i not in self.failed:
                agent = jax.tree.map(lambda x, i=i: x[i], agents)
                rows += tournament.table(self.plan.env, config, agent, self.options.seed + i)
        return tournament.write(rows, self.folder / "elo.csv")

    def _timing(self) -> dict[str, Any]:
        device = jax.devices()[0]
        steps = self.notes["trained"] * self.config.steps_per_update * self.options.seeds
        return {
            "env_steps_per_second": round(steps / self.notes["train_seconds"], 1),
            "train_seconds": round(self.notes["train_seconds"], 3),
            "compile_seconds": round(self.notes["compile_seconds"], 3),
            "wall_seconds": round(time.perf_counter() - self._began, 3),
            "device": {"platform": device.platform, "kind": device.device_kind, "host": platform.machine()},
            "versions": summary.versions(),
        }


def _title(planned: Plan) -> str:
    run = planned.settings
    seeds = f"seed {run.options.seed}" if run.options.seeds == 1 else f"{run.options.seeds} seeds"
    used = planned.parts.mesh.devices
    on = used.flat[0].platform + (f" x {used.size}" if used.size > 1 else "")
    return f"{run.algorithm} on {run.environment}, {seeds}, {int(run.config.total_timesteps):,} steps, {on}"
