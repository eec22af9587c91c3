"""Sweeps: many trials times many seeds in a few compiled programs. A sweep's life on the host."""

import dataclasses
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from purerl.devices import distributed
from purerl.registry import ALGORITHMS, ENVIRONMENTS
from purerl.run import checkpoint, named
from purerl.run.config import RunOptions, Settings, settings
from purerl.run.display import Silent, duration, number, open_display
from purerl.run.interrupt import Stop
from purerl.run.plan import check_same, lock, new_folder
from purerl.sweeps.chunks import Chunks
from purerl.sweeps.plan import SearchOptions, SweepPlan, dump_sweep, make_sweep_plan, names, saved_plan, told
from purerl.sweeps.result import Curves, SweepResult
from purerl.sweeps.search import Choices, IntUniform, LogUniform, Range, Uniform, text

__all__ = ["Choices", "IntUniform", "LogUniform", "Range", "SweepResult", "Uniform", "sweep"]


SHOW_SECONDS = 0.2  # between two looks at where it is


class Method(Protocol):
    """A search on its way; it is advanced from one point of the curves to the next."""

    curves: Curves
    compile_seconds: float

    def values(self) -> list[list[dict[str, Any]]]:
        """Return what is searched: by name, [trials][seeds]."""
        ...

    def share(self) -> float:
        """Return how much is done; 1 at the end."""
        ...

    def compiles(self) -> bool:
        """Return whether `advance` is going to compile first."""
        ...

    def advance(self) -> bool:
        """Train to the next point; return whether `save` would keep more than it did before."""
        ...

    def save(self, folder: Path) -> None:
        """Write what is needed to go on."""
        ...

    def restore(self, folder: Path) -> None:
        """Go on from what `save` wrote, to the same bits."""
        ...


def sweep(
    algorithm: Any,
    env: Any,
    config: Any = None,
    *,
    over: dict[str, Any],
    num_trials: int = 64,
    num_seeds: int = 8,
    method: str = "random",
    total_timesteps: int | None = None,
    seed: int = 0,
    devices: int | str = "auto",
    out: str | Path | None = None,
    resume: bool = False,
    plain: bool = False,
    **search: Any,
) -> SweepResult:
    """Train an algorithm with many settings, each with several seeds, and return what came out.

    Numbers of the config and of the environment are vmapped in one compiled program; values of shapes, such as
    `num_envs`, are grouped into as few programs as there are shapes.

    Args:
      algorithm: its name, or (spec, config) -> Algorithm.
      env: its id, or an environment; `over` may name its fields as `env.NAME`.
      config: what all trials share; for an algorithm and an environment by name, the settings in configs/.
      over: by field, `Uniform(8, 12)`, `LogUniform(1e-4, 1e-2)`, `IntUniform(2, 9)`, or a list of values.
      num_trials: how many; a grid may be smaller. The size of the population of "pbt".
      num_seeds: of each trial: seed, seed + 1, ... The same ones for every trial.
      method: "random", "grid", "qmc" (Sobol points), "halving" (successive halving) or "pbt" (population based
        training).
      total_timesteps: environment steps of each agent; as the config says if none is given.
      seed: the first seed; it draws the trials, too.
      devices: how many share the agents; "auto": all, on a CPU one per core.
      out: a folder for trials.csv, curves.npz, sweep.toml, best.toml and plots; none is written without one.
      resume: go on with the sweep in `out`, if there is one.
      plain: lines of text instead of a live panel.
      **search: fields of `purerl.sweeps.plan.SearchOptions`, such as chunk=8 for eight trials at once.

    Raises:
      InputError: for what cannot be, before anything is compiled.
    """
    run, factory, task = _settings(algorithm, env, config, RunOptions(seed=seed, seeds=num_seeds, devices=devices))
    if total_timesteps is not None:
        run = dataclasses.replace(run, config=dataclasses.replace(run.config, total_timesteps=total_timesteps))
    options = SearchOptions(method=method, trials=num_trials, **search)
    plan = make_sweep_plan(run, options, over, task, factory)
    folder = Path(out) if out is not None else None

    def take(folder: Path) -> str:
        if not (resume and folder.exists()):
            _new_folder(plan, folder)
            if run.algorithm not in ALGORITHMS or (task is not None and run.environment not in ENVIRONMENTS):
                named.write(folder / named.FILE, run=run, env=task, factory=factory)
            return ""
        check_same(folder / "sweep.toml", dump_sweep(plan), "sweep")
        return "go on"

    go_on = folder is not None and bool(distributed.first_does(lambda: take(folder)))
    life = Sweep(plan, folder, plain, go_on)
    if life.complete():
        raise KeyboardInterrupt
    return life.result()


def start(plan: SweepPlan, out: Path | None = None, plain: bool = False) -> int:
    """Sweep from the beginning, into `out` or runs/sweep-ALGORITHM-ENVIRONMENT-N; return the exit code."""
    return Sweep(plan, Path(distributed.first_does(lambda: _new_folder(plan, out))), plain).complete()


def resume(folder: Path, plain: bool = False, **devices: Any) -> int:
    """Go on with a sweep that was stopped; as `start`. `devices`: in place of its own, to the same bits."""
    return Sweep(saved_plan(folder, **devices), folder, plain, go_on=True).complete()


def _settings(algorithm: Any, env: Any, config: Any, options: RunOptions) -> tuple[Settings, Any, Any]:
    """Return (settings, factory, environment) of a sweep that was called from Python; None: as the settings name it."""
    name, task = names(algorithm, env)
    parameters: dict[str, Any] = {}
    if config is None:
        tuned = settings(name, task, {})
        config, parameters = tuned.config, tuned.parameters if isinstance(env, str) else {}
    run = Settings(algorithm=name, environment=task, options=options, config=config, parameters=parameters)
    return run, algorithm if callable(algorithm) else None, None if isinstance(env, str) else env


def _new_folder(plan: SweepPlan, out: Path | None) -> str:
    folder = new_folder(out, "sweep", plan.settings.algorithm, plan.settings.environment)
    (folder / "sweep.toml").write_text(dump_sweep(plan), encoding="utf-8")
    return str(folder)


class SweepSnapshot(NamedTuple):
    """Where a sweep is."""

    share: float
    seconds_left: float
    trials_done: int
    num_trials: int
    best_return: float
    best: dict[str, Any]
    steps_per_second: float
    wall_seconds: float

    @property
    def height(self) -> float:
        """The best return so far."""
        return self.best_return

    def line(self) -> str:
        """Return all of it in one line."""
        return (
            f"{self.trials_done} of {self.num_trials} trials  best return {number(self.best_return)}  "
            f"({values_told(self.best)})  {self.steps_per_second:,.0f} steps/s"
        )

    def rows(self, curve: str) -> list[tuple[str, str]]:
        """Return the rows of the panel."""
        return [
            ("trials", f"{self.trials_done} of {self.num_trials}"),
            ("speed", f"{self.steps_per_second:,.0f} steps/s, {duration(self.wall_seconds)} so far"),
            ("best return", number(self.best_return)),
            ("", curve),
            ("with", values_told(self.best)),
        ]


def values_told(values: dict[str, Any]) -> str:
    """Return values by name in one line."""
    return ", ".join(f"{name} {number(v) if isinstance(v, float) else text(v)}" for name, v in values.items())


class Sweep:
    """One sweep, in one process or several."""

    def __init__(self, plan: SweepPlan, folder: Path | None, plain: bool, go_on: bool = False):
        """Take a folder; with `go_on`, what is complete there."""
        self.plan, self.folder, self.plain = plan, folder, plain
        self.method = make_method(plan)
        self._lock = None
        distributed.first_does(self._take_folder)
        if go_on and folder is not None:
            self.method.restore(folder)
        self._share_before, self._steps_before = self.method.share(), self._steps()

    def _take_folder(self) -> str:
        if self.folder is not None:
            self._lock = lock(self.folder, "sweep.toml")
            checkpoint.remove_unfinished(self.folder / "checkpoints")
        return ""

    def result(self) -> SweepResult:
        """Return what is known so far."""
        return SweepResult(self.plan, self.method.curves, self.method.values(), self.folder)

    def complete(self) -> int:
        """Sweep to the end, or until a signal; return the exit code."""
        run, options = self.plan.settings, self.plan.options
        mesh = self.plan.mesh
        device = f"{mesh.size} x {mesh.devices.flat[0].platform}"
        self.display: Any = Silent()
        if distributed.is_first():
            title = f"sweep of {run.algorithm} on {run.environment}, {options.method}, {device}"
            self.display = open_display(title, self.plain)
        try:
            for line in told(self.plan):
                self.display.line(line)
            with Stop() as stop, distributed.watched(self._lost):
                self._began = self._shown = time.perf_counter()
                while self.method.share() < 1 and not stop.signal:
                    if self.method.compiles():
                        self.display.stage("compiling")
                    worth = self.method.advance()
                    if time.perf_counter() - self._shown > SHOW_SECONDS or self.method.share() == 1:
                        self._show()
                    said = distributed.agree(worth, stop.signal)
                    if said[0, 0]:  # what the clock decides, the first process's clock does
                        self._save()
                    stop.signal = int(said[:, 1].max())
                return self._finish(stop.signal)
        finally:
            self.display.close()
            if self._lock is not None:
                self._lock.close()

    def _lost(self, why: str) -> None:
        self.display.close()
        distributed.give_up(why, f"purerl sweep --resume {self.folder}" if self.folder else None)

    def _save(self) -> None:
        if self.folder is not None:
            self.method.save(self.folder)
            self.result().save()

    def _steps(self) -> int:
        curves = self.method.curves
        reached = np.where(
            curves.trained > 0, np.take_along_axis(curves.env_steps, curves.trained[:, None] - 1, 1)[:, 0], 0
        )
        return int(reached.sum()) * len(self.plan.seeds)

    def _show(self) -> None:
        result, share, curves = self.result(), self.method.share(), self.method.curves
        self._shown = time.perf_counter()
        wall = self._shown - self._began
        trained = max(wall - self.method.compile_seconds, 1e-9)
        self.display.update(
            SweepSnapshot(
                share=share,
                seconds_left=(1 - share) / max(share - self._share_before, 1e-9) * trained,
                trials_done=int((curves.trained == curves.env_steps.shape[1]).sum()),
                num_trials=len(self.plan.trials),
                best_return=result.best_return,
                best=result.best,
                steps_per_second=(self._steps() - self._steps_before) / trained,
                wall_seconds=wall,
            )
        )

    def _finish(self, signal: int) -> int:
        """Write the plots and say how it went; return the exit code."""
        where = self.folder
        if signal:
            self.display.close()
            self.display.line(f"stopped at {self.method.share():.0%} of the sweep")
            if where is not None:
                self.method.save(where)
                self.display.line(f"go on with:\n  purerl sweep --resume {where}")
            return 128 + signal
        result = self.result()
        if where is not None:
            from purerl.sweeps.plot import plot_sweep

            self._save()
            self.display.stage("drawing")
            if distributed.is_first():
                plot_sweep(result)
        self.display.close()
        self.display.line(f"best: return {number(result.best_return)} with {values_told(result.best)}")
        if where is not None:
            self.display.line(f"see {where}/: trials.csv, curves.npz, best.toml, and the plots")
            if self.plan.settings.algorithm in ALGORITHMS:
                self.display.line(f"train the best with:\n  purerl train --config {where / 'best.toml'}")
        return 0


def make_method(plan: SweepPlan) -> Method:
    """Return the search that a plan asks for, at its beginning."""
    if plan.options.method == "halving":
        from purerl.sweeps.halving import Halving

        return Halving(plan)
    if plan.options.method == "pbt":
        from purerl.sweeps.population import Population

        return Population(plan)
    return Chunks(plan)
