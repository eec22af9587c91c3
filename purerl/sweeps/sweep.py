"""Sweeps: train many trials times many seeds in a few compiled programs."""

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from purerl.errors import path_given
from purerl.reporting.display import CURVE, Status, duration, number
from purerl.run.folders import enter_folder
from purerl.run.lifecycle import LongJob
from purerl.settings import toml
from purerl.settings.options import RunOptions, SearchOptions, make_options
from purerl.settings.ranges import Choices, IntUniform, LogUniform, Range, Uniform
from purerl.settings.runs import settings
from purerl.settings.values import to_text
from purerl.sweeps.chunks import Chunks
from purerl.sweeps.halving import Halving
from purerl.sweeps.plan import SweepPlan, description, dump_sweep, make_sweep_plan, saved_plan
from purerl.sweeps.population import Population
from purerl.sweeps.result import SweepResult
from purerl.sweeps.search import Search
from purerl.trust import flags, typed
from purerl.types import AlgorithmFactory, Config, Environment

__all__ = ["Choices", "IntUniform", "LogUniform", "Range", "SweepResult", "Uniform", "sweep"]


SHOW_SECONDS = 0.2  # between two updates of the display


def sweep(
    algorithm: AlgorithmFactory | str,
    env: Environment | str,
    config: Config | None = None,
    *,
    over: Mapping[str, object],
    trials: int = 64,
    seeds: int = 8,
    method: str = "random",
    total_timesteps: int | None = None,
    seed: int = 0,
    devices: int | str = "auto",
    out: str | Path | None = None,
    resume: bool = False,
    display: str = "auto",
    **search: object,
) -> SweepResult:
    """Train an algorithm with many settings, each with several seeds, and return the result.

    Numbers of the config and of the environment are vmapped in one compiled program; values of shapes, such as
    `num_envs`, are grouped into as few programs as there are shapes.

    Args:
      algorithm: its name, its module:function, or (spec, config) -> Algorithm itself.
      env: its id, its module:Class, or an environment; `over` may name its fields as `env.NAME`.
      config: the settings that all trials share; for names, by default the settings in configs/.
      over: the searched values by field: `Uniform(8, 12)`, `LogUniform(1e-4, 1e-2)`, `IntUniform(2, 9)`, or a list of
        values.
      trials: the number of trials (a grid may have fewer), or the size of the population of "pbt".
      seeds: the number of seeds of each trial: seed, seed + 1, ..., the same ones for every trial.
      method: "random", "grid", "qmc" (Sobol points), "halving" (successive halving) or "pbt" (population based
        training).
      total_timesteps: environment steps of each agent; None: from the config.
      seed: the first seed; it also determines the trials.
      devices: the number of devices that share the agents; "auto": all, on a CPU one per core.
      out: a folder for trials.csv, curves.npz, sweep.toml, best.toml and plots; without it, none of them is written.
      resume: resume the sweep in `out`, if there is one.
      display: "auto" (a live panel in a terminal or a notebook, lines elsewhere), "plain" (lines) or "none".
      **search: fields of `purerl.settings.options.SearchOptions`, such as chunk=8 for eight trials at once.

    Returns:
      The settings and returns of all trials; `best` has the settings with the highest return.

    Raises:
      InputError: for a sweep that is not possible, before anything is compiled.

    Example:
      >>> import purerl
      >>> found = purerl.sweep(
      ...     "ppo",
      ...     "Catch",
      ...     over={"learning_rate": purerl.LogUniform(1e-4, 1e-2)},
      ...     trials=2,
      ...     seeds=1,
      ...     total_timesteps=1_024,
      ...     display="none",
      ... )
      >>> sorted(found.best)
      ['learning_rate']
    """
    length = {} if total_timesteps is None else {"total_timesteps": total_timesteps}
    typed(algorithm, env)
    run = settings(algorithm, env, length, config=config)
    given = {"seed": seed, "seeds": seeds, "devices": devices}
    run = dataclasses.replace(run, options=make_options(RunOptions, given))
    options = make_options(SearchOptions, {"method": method, "trials": trials, **search})
    plan = make_sweep_plan(run, options, over)
    folder, go_on = None, False
    if out is not None:
        folder, go_on = _enter(plan, path_given(out, "out"), resume)
    job = Sweep(plan, folder, display, go_on)
    job.succeed()
    return job.result()


def start(plan: SweepPlan, out: Path | None = None, plain: bool = False) -> int:
    """Sweep from the beginning, into `out` or runs/sweep-ALGORITHM-ENVIRONMENT-N; return the exit code."""
    return Sweep(plan, _enter(plan, out)[0], "plain" if plain else "auto").complete()


def resume(folder: Path, plain: bool = False, fresh_seeds: int | None = None, **devices: object) -> int:
    """Resume a sweep; as `start`. These options replace its own: `fresh_seeds`, `devices`."""
    return Sweep(
        saved_plan(folder, fresh_seeds, **devices), folder, "plain" if plain else "auto", go_on=True
    ).complete()


def _enter(plan: SweepPlan, out: Path | None, resume: bool = False) -> tuple[Path, bool]:
    words = ("sweep", plan.settings.algorithm, plan.settings.environment)
    return enter_folder(toml.SWEEP, out, words, dump_sweep(plan), resume, files=plan.kept_files())


def values_text(values: Mapping[str, object]) -> str:
    """Return {name: value} as one line of text."""
    return ", ".join(f"{name} {number(v) if isinstance(v, float) else to_text(v)}" for name, v in values.items())


class Sweep(LongJob):
    """One sweep, in one process or several."""

    kind = toml.SWEEP

    def __init__(self, plan: SweepPlan, folder: Path | None, display: str, go_on: bool = False):
        """Take a folder; with `go_on`, resume from its complete parts."""
        run = plan.settings
        super().__init__(
            folder,
            display,
            from_python=bool(run.from_python),
            names=(run.algorithm, run.environment),
        )
        self.plan = plan
        self.search = make_search(plan)
        if go_on and folder is not None:
            with self.released_on_error():
                self.search.restore(folder)
        self._share_before, self._steps_before = self.search.share(), self._steps()
        self._save_now = False
        self._fresh: np.ndarray | None = None

    def result(self) -> SweepResult:
        """Return the result so far."""
        curves, values = self.search.curves, self.search.values()
        return SweepResult(plan=self.plan, curves=curves, values=values, folder=self.folder, fresh=self._fresh)

    @property
    def position(self) -> int:
        """The number of points of all curves."""
        return int(self.search.curves.trained.sum())

    def progress_text(self) -> str:
        """Return how far the sweep is."""
        return f"{self.search.share():.0%} of the sweep"

    def title(self) -> str:
        """Return the title of the display."""
        run, mesh = self.plan.settings, self.plan.mesh
        device = f"{mesh.size} x {mesh.devices.flat[0].platform}"
        return f"sweep of {run.algorithm} on {run.environment}, {self.plan.options.method}, {device}"

    def done(self) -> bool:
        """Return whether training is complete."""
        return self.search.share() >= 1

    def prepare(self) -> None:
        """Show the plan; programs are compiled when they are first needed."""
        for line in description(self.plan):
            self.display.line(line)
        self.began = self._shown = time.perf_counter()

    def votes(self) -> tuple[int, ...]:
        """Return (whether to save,)."""
        return (self._save_now,)

    def advance(self, *votes: int) -> None:
        """Train to the next point of the curves."""
        if self.search.compiles():
            self.display.stage("compiling")
        with self.stop.counts_at_once(self.search.compiles()):  # all that was trained before is saved
            self._save_now = self.search.advance()
        if time.perf_counter() - self._shown > SHOW_SECONDS or self.done():
            self._show()

    def has_saved(self) -> bool:
        """Return whether there is a checkpoint, or curves of completed trials."""
        return super().has_saved() or (self.folder is not None and (self.folder / "curves.npz").is_file())

    def save(self) -> None:
        """Write everything that resuming needs, and the table so far."""
        assert self.folder is not None
        self.search.save(self.folder)
        if not self.stop.signal:
            self.result().save()

    def close_logs(self) -> None:
        """Do nothing: a sweep has no logs."""

    def _steps(self) -> int:
        curves = self.search.curves
        reached = np.where(
            curves.trained > 0, np.take_along_axis(curves.env_steps, curves.trained[:, None] - 1, 1)[:, 0], 0
        )
        return int(reached.sum()) * len(self.plan.seeds)

    def _show(self) -> None:
        result, share, training = self.result(), self.search.share(), self.search.running()
        self._shown = time.perf_counter()
        wall = self._shown - self.began
        trained = max(wall - self.search.compile_seconds, 1e-9)
        ended = int((self.search.curves.trained > 0).sum()) - training
        trials = f"{ended} of {len(self.plan.trials)} trials ended" + f", {training} in training" * bool(training)
        speed = f"{(self._steps() - self._steps_before) / trained:,.0f} steps/s"
        best, values = number(result.best_return), values_text(result.best)
        self.display.update(
            Status(
                share=share,
                seconds_left=(1 - share) / max(share - self._share_before, 1e-9) * trained,
                height=result.best_return,
                line=f"{trials}  best {self.plan.measure} {best}{f'  ({values})' if values else ''}  {speed}",
                rows=[
                    ("trials", trials),
                    ("speed", f"{speed}, {duration(wall)} so far"),
                    (f"best {self.plan.measure}", best),
                    CURVE,
                    ("with", values),
                ],
            )
        )

    def _train_best(self) -> np.ndarray | None:
        """Return the best settings' final returns with other seeds, f64[fresh_seeds]; None if none are wanted."""
        best = self.result().best
        if not self.plan.options.fresh_seeds or not best:
            return None
        self.display.stage("training the best with other seeds")
        search = Chunks(best_alone(self.plan, best))
        while search.share() < 1:
            search.advance()
            if self._agreed_to_stop():
                return None
        return self.plan.sign * search.curves.final_return()[0]

    def finish(self) -> int:
        """Write the table and the plots, and show the result; return 0."""
        self._fresh = self._train_best()
        if self.stop.signal:
            return self._stopped()
        result = self.result()
        if self.folder is not None:
            from purerl.sweeps.plot import plot_sweep

            result.save()
            self.display.stage("drawing")
            if self.first:
                plot_sweep(result)
        self.display.close()
        if result.best:
            self.display.line(f"best: {self.plan.measure} {number(result.best_return)} with {values_text(result.best)}")
            self.display.line(result.fresh_text())
        else:
            self.display.line(f"there is no best trial: none has a {self.plan.measure} and stayed finite")
        if self.folder is not None:
            best = "best.toml, " if result.best else ""
            self.display.line(f"see {self.folder}/: trials.csv, curves.npz, {best}and the plots")
            run = self.plan.settings
            if result.best and not {"algorithm", "environment"} & set(run.from_python):
                also = flags(run.algorithm, run.environment)
                self.display.line(f"train the best with:\n  purerl train --config {self.folder / 'best.toml'}{also}")
        return 0


def best_alone(plan: SweepPlan, best: Mapping[str, object]) -> SweepPlan:
    """Return the plan that trains the best settings with `fresh_seeds` other seeds."""
    options = plan.settings.options
    others = dataclasses.replace(options, seed=options.seed + options.seeds, seeds=plan.options.fresh_seeds)
    alone = dataclasses.replace(plan.options, method="grid", trials=1, chunk=0)
    run = dataclasses.replace(plan.settings, options=others)
    return make_sweep_plan(run, alone, {name: [value] for name, value in best.items()})


def make_search(plan: SweepPlan) -> Search:
    """Return a new search of a plan."""
    return {"halving": Halving, "pbt": Population}.get(plan.options.method, Chunks)(plan)
