"""The memory of each kind of job while it logs, evaluates and saves at every step, for a given time.

    python -m benchmarks.faults.leaks --seconds 60 --only host

Prints the resident memory at six times, from the first checkpoint or chunk on, and how far the job came.
"""

import argparse
import contextlib
import os
import re
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.faults.kinds import KINDS
from benchmarks.faults.runner import Running

LONG = {r"--total-timesteps \d+": "--total-timesteps 10000000", r"--generations \d+": "--generations 10000"}
TRIALS = {r"--trials \d+": "--trials 20000", r"--method": "--chunk 1 --method"}  # each trial as short as before
ENDLESS = {  # the first word that a job's words hold -> lengths in them -> those of a job that does not end
    "pbt": LONG,
    "halving": {r"--trials \d+": "--trials 2000", r"--rungs": "--slots 1 --rungs"},
    "sweep": TRIALS,
    "evolve": {r"--generations \d+": "--generations 10000"},  # lifetimes are as short as before
    "train": LONG | {r"--evaluations \d+": "--evaluations 10000000"},
}
POINTS = 6
START_SECONDS = 300.0  # time limit for a job to begin


def endless(words: str) -> list[str]:
    """Return the words of a job that is much longer."""
    kind = next(kind for kind in ENDLESS if kind in words)
    for found, longer in ENDLESS[kind].items():
        words = re.sub(found, longer, words)
    return words.split()


def progress(folder: Path) -> int:
    """Return the number of the newest checkpoint, or of the points in the curves of a sweep that saves no others."""
    found = (folder / "checkpoints").glob("[0-9]*[0-9]")
    newest = max((int(path.name) for path in found if path.name.isdecimal()), default=0)
    with contextlib.suppress(OSError), np.load(folder / "curves.npz") as curves:
        newest = max(newest, int(curves["trained"].sum()))
    return newest


def measured(kind: str, folder: Path, seconds: float) -> str:
    """Return a line about the memory of a kind."""
    job, last = Running([*endless(KINDS[kind].words), "--out", str(folder)]), time.monotonic() + START_SECONDS
    while job.alive() and progress(folder) < 3 and time.monotonic() < last:
        time.sleep(0.1)
    began, first, sizes = time.monotonic(), progress(folder), []
    for point in range(POINTS):
        time.sleep(max(0.0, began + seconds * point / (POINTS - 1) - time.monotonic()))
        sizes.append(job.resident() / 1e6)
    saved = progress(folder) - first
    job.signal(signal.SIGTERM)
    done = job.wait()
    if done.code != 128 + signal.SIGTERM:
        return f"{kind}: ended with {done.code}: {done.last_line}"
    shown = " ".join(f"{size:.1f}" for size in sizes)
    return f"{kind}: MB {shown}; rise after the second point {sizes[-1] - sizes[1]:+.1f}; {saved:,} steps between"


def main() -> None:
    """Measure each kind in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each kind, once it saves")
    parser.add_argument("--only", default="", help="kinds that hold this regular expression")
    given = parser.parse_args()
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    for i, kind in enumerate(kind for kind in KINDS if re.search(given.only, kind)):
        with tempfile.TemporaryDirectory(prefix="leaks-", ignore_cleanup_errors=True) as name:
            print(measured(kind, Path(name) / f"job-{i}", given.seconds), flush=True)


if __name__ == "__main__":
    main()
