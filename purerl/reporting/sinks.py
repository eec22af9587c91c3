"""Destinations of a run's rows, one class per log. A failing log of another package never stops the training."""

import importlib
import importlib.util
import math
import os
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from purerl.errors import InputError, install
from purerl.reporting.files import own_folder, write_whole
from purerl.settings.options import RunOptions
from purerl.trust import reading

PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}  # option -> what must be importable
NOT_METRICS = ("seed", "update", "env_steps", "wall_seconds")  # columns of a row that are not metrics


def require(options: RunOptions) -> None:
    """Raise an `InputError` if an option needs a package that is not installed."""
    for name, package in PACKAGES.items():
        if getattr(options, name) and importlib.util.find_spec(package) is None:
            raise InputError(f"--{name} needs {package}: {install(name)}")


def metrics_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return {name: number} of an update's finite numbers: their means over seeds, and each seed's as seed-N/NAME."""
    found: dict[str, list[float]] = {}
    each: dict[str, float] = {}
    for row in rows:
        for name, value in row.items():
            if name not in NOT_METRICS and math.isfinite(float(value)):
                found.setdefault(name, []).append(float(value))
                each[f"seed-{row['seed']}/{name}"] = float(value)
    return {name: sum(values) / len(values) for name, values in found.items()} | (each if len(rows) > 1 else {})


class Sink(Protocol):
    """A log of a run's rows. `purerl.reporting.metrics_csv.Log` is one."""

    def write(self, rows: Sequence[dict[str, object]]) -> None:
        """Log the rows of an update, one per seed."""
        ...

    def close(self) -> None:
        """End the log."""
        ...


def open_trackers(
    options: RunOptions,
    folder: Path,
    update: int,
    algorithm: Collection[str],
    settings: Callable[[], Mapping[str, Any]],
    tell: Callable[[str], None],
) -> list[Sink]:
    """Return the logs of other packages that the options request; other arguments as for their classes."""
    found: list[Sink] = []
    if options.tensorboard:
        found.append(TensorBoard(folder, update, algorithm, tell))
    if options.wandb is not None:
        found.append(WandB(options.wandb, folder, settings(), tell))
    if options.mlflow:
        found.append(MLflow(folder, settings(), tell))
    return found


class Tracker:
    """A log of another package; an exception in it is reported once, and ends only this log."""

    name = "the tracker"

    def __init__(self, folder: Path, settings: Mapping[str, Any], tell: Callable[[str], None]):
        """Start a log, or continue the log of an earlier process in a run's folder.

        Args:
          folder: the folder of the run.
          settings: the settings of the run, by their whole names.
          tell: a function that shows the user a line.
        """
        self._folder, self._settings, self._tell, self._alive = folder, settings, tell, True
        self._do(self._open)

    def write(self, rows: Sequence[dict[str, object]]) -> None:
        """Log the rows of an update, one per seed."""
        if self._alive:
            self._do(lambda: self._log(rows))

    def close(self) -> None:
        """End the log."""
        if self._alive:
            self._do(self._finish)

    def _do(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # a server that is gone, a disk that is full
            self._alive = False
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            self._tell(f"{self.name} takes no more rows: {first}; metrics.csv goes on")

    def _open(self) -> None:
        raise NotImplementedError

    def _log(self, rows: Sequence[Mapping[str, object]]) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        raise NotImplementedError

    def _id(self, kind: str, make: Callable[[], str]) -> tuple[str, bool]:
        """Return (the log's name on its server, whether an earlier process created it)."""
        file = self._folder / f"{kind}.id"
        if reading.is_file(file):
            found = reading.text(file, reading.SETTINGS).strip()
            if found.isalnum():
                return found, True
        made = make()
        write_whole(file, made + "\n")
        return made, False


class TensorBoard(Tracker):
    """Event files in the folder's `tensorboard/seed-<n>/`; tensorboard --logdir shows all seeds together.

    They are written at once: tensorboardX' own writer has a thread, which a full disk ends, and then waits for it.
    """

    name = "TensorBoard"

    def __init__(self, folder: Path, update: int, algorithm: Collection[str], tell: Callable[[str], None]):
        """Start a log, or continue after an update: later events of a killed run are hidden.

        Args:
          folder, tell: as for `Tracker`.
          update: the number of updates done.
          algorithm: the names of the algorithm's metrics; all others describe episodes.
        """
        self._update, self._algorithm = update, frozenset(algorithm)
        self._writers: dict[int, Any] = {}
        super().__init__(folder, {}, tell)

    def _open(self) -> None:
        self._where = own_folder(self._folder / "tensorboard")

    def _log(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add a row per seed, as in metrics.csv; numbers that are not finite are left out."""
        scalar = importlib.import_module("tensorboardX.summary").scalar
        for row in rows:
            writer, step = self._writer(row["seed"], row["env_steps"]), row["env_steps"]
            for name, value in row.items():
                if name not in NOT_METRICS and math.isfinite(float(value)):
                    group = "algorithm" if name in self._algorithm else "episodes"
                    shown = scalar(f"{group}/{name}", float(value))
                    writer.write_event(_event(step, wall_time=time.time(), summary=shown))
            writer.flush()

    def _writer(self, seed: int, step: int) -> Any:
        if seed not in self._writers:
            where = own_folder(self._where / f"seed-{seed}") / "events"
            self._writers[seed] = importlib.import_module("tensorboardX.event_file_writer").EventsWriter(str(where))
            if self._update:  # hides events from this step on in older files
                self._writers[seed].write_event(_event(step, session_log={"status": "START"}))
        return self._writers[seed]

    def _finish(self) -> None:
        for writer in self._writers.values():
            writer.close()


def _event(step: int, **parts: object) -> Any:
    return importlib.import_module("tensorboardX.proto.event_pb2").Event(step=step, **parts)


class WandB(Tracker):
    """A run of Weights & Biases, in the folder's `wandb/`."""

    name = "Weights & Biases"

    def __init__(self, project: str, folder: Path, settings: Mapping[str, Any], tell: Callable[[str], None]):
        """Start a log in a project; other arguments as for `Tracker`."""
        self._project = project
        super().__init__(folder, settings, tell)

    def _open(self) -> None:
        wandb = importlib.import_module("wandb")
        settings = self._folder / "wandb" / "settings"  # W&B obeys it, and would send keys to a server that it names
        if os.path.lexists(settings):
            raise InputError(f"{settings} names settings of Weights & Biases: remove it")
        here = Path.cwd().is_relative_to(self._folder.resolve())  # then Git's settings are the folder's, too
        name, _ = self._id("wandb", lambda: secrets.token_hex(8))
        self._run = wandb.init(
            project=self._project,
            id=name,
            resume="allow",
            name=self._folder.name,
            dir=str(own_folder(self._folder / "wandb").parent),
            config=dict(self._settings),
            settings=wandb.Settings(console="off", silent=True, disable_git=here),
        )

    def _log(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._run.log(metrics_of(rows), step=int(rows[0]["env_steps"]))

    def _finish(self) -> None:
        self._run.finish()


class MLflow(Tracker):
    """A run of MLflow, at the server and in the experiment of MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME."""

    name = "MLflow"

    def _open(self) -> None:
        self._client = importlib.import_module("mlflow.tracking").MlflowClient()
        name, old = self._id("mlflow", self._new)
        self._run_id = name
        if not old:
            for key, value in self._settings.items():
                self._client.log_param(name, key, value)

    def _new(self) -> str:
        wanted = os.environ.get("MLFLOW_EXPERIMENT_NAME", "purerl")
        experiment = self._client.get_experiment_by_name(wanted)
        where = self._client.create_experiment(wanted) if experiment is None else experiment.experiment_id
        return self._client.create_run(where, run_name=self._folder.name).info.run_id

    def _log(self, rows: Sequence[Mapping[str, Any]]) -> None:
        metric = importlib.import_module("mlflow.entities").Metric
        now, step, metrics = int(1000 * time.time()), int(rows[0]["env_steps"]), metrics_of(rows)
        self._client.log_batch(self._run_id, [metric(name, value, now, step) for name, value in metrics.items()])

    def _finish(self) -> None:
        self._client.set_terminated(self._run_id)
