"""TensorBoard events of a run: one series per seed."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from purerl.reporting.files import own_folder


class Events:
    """Event files in a folder, `seed-<n>` each; tensorboard --logdir shows the seeds side by side."""

    def __init__(self, folder: Path, update: int, algorithm: Collection[str]):
        """Go on from an update: events after it, of a run that was killed, are hidden.

        Args:
          folder: where to write.
          update: the number of updates done.
          algorithm: the names of the algorithm's metrics; all others are of episodes.
        """
        self._folder, self._update, self._algorithm = folder, update, frozenset(algorithm)
        self._writers: dict[int, Any] = {}

    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add a row per seed, as in metrics.csv; numbers that are not finite are left out."""
        from tensorboardX import SummaryWriter

        for row in rows:
            seed = row["seed"]
            if seed not in self._writers:
                step = row["env_steps"] if self._update else None
                where = own_folder(self._folder) / f"seed-{seed}"
                self._writers[seed] = SummaryWriter(str(own_folder(where)), purge_step=step)
            for name, value in row.items():
                if name in ("seed", "update", "env_steps", "wall_seconds") or not math.isfinite(float(value)):
                    continue
                group = "algorithm" if name in self._algorithm else "episodes"
                self._writers[seed].add_scalar(f"{group}/{name}", float(value), row["env_steps"])

    def close(self) -> None:
        """Write what is left and close the files."""
        for writer in self._writers.values():
            writer.close()
