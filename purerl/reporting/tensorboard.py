"""TensorBoard events of a run: one series per seed."""

import importlib
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from purerl.reporting.files import own_folder
from purerl.reporting.trackers import BESIDE, Tracker


class TensorBoard(Tracker):
    """Event files in the folder's `tensorboard/seed-<n>/`; tensorboard --logdir shows the seeds side by side.

    They are written at once: tensorboardX' own writer has a thread, which a full disk ends, and then waits for it.
    """

    name = "TensorBoard"

    def __init__(self, folder: Path, update: int, algorithm: Collection[str], tell: Callable[[str], None]):
        """Begin, or go on from an update: events after it, of a run that was killed, are hidden.

        Args:
          folder: of the run.
          update: the number of updates done.
          algorithm: the names of the algorithm's metrics; all others are of episodes.
          tell: shows the user a line.
        """
        self._update, self._algorithm = update, frozenset(algorithm)
        self._writers: dict[int, Any] = {}
        super().__init__(folder, tell)

    def _open(self) -> None:
        self._where = own_folder(self._folder / "tensorboard")

    def _log(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add a row per seed, as in metrics.csv; numbers that are not finite are left out."""
        scalar = importlib.import_module("tensorboardX.summary").scalar
        for row in rows:
            writer, step = self._writer(row["seed"], row["env_steps"]), row["env_steps"]
            for name, value in row.items():
                if name not in BESIDE and math.isfinite(float(value)):
                    group = "algorithm" if name in self._algorithm else "episodes"
                    shown = scalar(f"{group}/{name}", float(value))
                    writer.write_event(_event(step, wall_time=time.time(), summary=shown))
            writer.flush()

    def _writer(self, seed: int, step: int) -> Any:
        if seed not in self._writers:
            where = own_folder(self._where / f"seed-{seed}") / "events"
            self._writers[seed] = importlib.import_module("tensorboardX.event_file_writer").EventsWriter(str(where))
            if self._update:  # hides what is of this step or later in older files
                self._writers[seed].write_event(_event(step, session_log={"status": "START"}))
        return self._writers[seed]

    def _finish(self) -> None:
        for writer in self._writers.values():
            writer.close()


def _event(step: int, **parts: Any) -> Any:
    return importlib.import_module("tensorboardX.proto.event_pb2").Event(step=step, **parts)
