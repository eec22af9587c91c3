"""Frameworks that train on the same problems, each in a process of its own, in turn."""

import contextlib
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from benchmarks.opponents import Opponent, command, environment
from benchmarks.timing import progress

WORKERS = Path(__file__).parent / "workers"


class Problem(NamedTuple):
    """An algorithm, an environment and settings, for all frameworks the same."""

    name: str
    algorithm: str
    environment: str
    steps: int  # environment steps per seed
    settings: dict[str, Any]  # settings of the algorithm, with purerl's names
    seeds: int = 1
    parameters: dict[str, Any] | None = None  # parameters that make purerl's environment equal the opponents'
    self_play: bool = False  # purerl's environment is played by both sides
    evolves: bool = False  # a run is one generation of OpenES over LPO's drift, one candidate per seed
    evaluations: int = 4  # evaluations per run, if the framework alternates training and evaluation
    episodes: int = 64  # episodes per evaluation


class Training(NamedTuple):
    """One training run of a framework."""

    seconds: float
    reached: float  # the return
    memory: int  # bytes, the most that the process has had
    curve: list[tuple[int, float]]  # (environment steps, return) of its evaluations, where they are asked for


class Failed(Exception):
    """A framework did not solve a problem; the message is the last line of its error."""


class FrameworkProcess:
    """The process of a framework that has built a problem and trains on request."""

    def __init__(self, problem: Problem, opponent: Opponent | None):
        """Start the process of an opponent, or of purerl.

        Raises:
          Failed: if it does not start, or cannot build the problem.
        """
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in __exit__
        line = [sys.executable, str(WORKERS / "with_purerl.py")] if opponent is None else command(opponent, WORKERS)
        try:
            self.process = subprocess.Popen(
                line,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                text=True,
                env=environment(opponent),
            )
        except OSError as error:
            self.errors.close()
            raise Failed(f"{line[0]}: {error.strerror}") from error
        checkout = opponent.checkout if opponent else None
        self.compile_seconds = self._ask(json.dumps(problem._asdict() | {"checkout": checkout}))["compile"]

    def train(self, seed: int, curve: bool = False) -> Training:
        """Train once, and evaluate what was trained where a curve is wanted.

        Raises:
          Failed: if the process stops.
        """
        answer = self._ask(f"{seed} curve" if curve else str(seed))
        return Training(
            seconds=answer["seconds"], reached=answer["return"], memory=answer["memory"], curve=answer["curve"]
        )

    def _ask(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError) as error:  # the process has ended
            self.close()
            raise Failed(self.last_words) from error

    def close(self) -> None:
        """End the process, and store the last line of its error."""
        if self.errors.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate(timeout=60)
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors.read().splitlines() if line.strip()]
        named = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception)\b", line)]  # notes may follow
        self.last_words = (named or lines or [f"it ended with {self.process.returncode}"])[-1][:200]
        self.errors.close()

    def __enter__(self) -> "FrameworkProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.process.kill()
        self.close()


class Score(NamedTuple):
    """The result of one framework on one problem."""

    seconds: list[float]  # seconds of each training run
    returns: list[float]  # return that each run reached
    compile_seconds: float
    memory: list[int]  # bytes, the most that its process had by the end of each
    curves: list[list[tuple[int, float]]] = []  # noqa: RUF012  (of each training of purerl)
    failure: str | None = None

    @property
    def mean_return(self) -> float:
        """Return the mean over training runs; NaN if there is none."""
        return sum(self.returns) / len(self.returns) if self.returns else math.nan

    @property
    def whole(self) -> float:
        """Return the seconds of compilation plus the median seconds of a training run."""
        return self.compile_seconds + statistics.median(self.seconds)

    def seconds_to(self, level: float, steps: int) -> float | None:
        """Return the seconds, compilation included, until the mean curve reaches a return; None if it never does.

        This assumes that a run takes all `steps` steps at the same speed.
        """
        for points in zip(*self.curves, strict=False):
            if sum(reached for _, reached in points) >= level * len(points):
                share = sum(at for at, _ in points) / len(points) / steps
                return self.compile_seconds + share * statistics.median(self.seconds)
        return None


def contest(problem: Problem, opponents: Sequence[Opponent], runs: int) -> list[Score]:
    """Train purerl and its opponents in turn, A B A B; return their scores, purerl's first.

    A slow opponent trains in the first round only, without a warm-up run.
    """
    with contextlib.ExitStack() as stack:
        entrants: list[tuple[FrameworkProcess | None, Score, str, bool]] = []
        for opponent in (None, *opponents):
            name, slow = ("purerl", False) if opponent is None else (opponent.name, opponent.slow)
            worker, score = None, Score(seconds=[], returns=[], compile_seconds=math.nan, memory=[], curves=[])
            try:
                worker = stack.enter_context(FrameworkProcess(problem, opponent))
                if not slow:
                    worker.train(0)
                score = score._replace(compile_seconds=worker.compile_seconds)
                progress(f"{problem.name}, {name}: compiled in {worker.compile_seconds:.1f} s")
            except Failed as failure:
                if opponent is None:
                    raise
                worker, score = None, score._replace(failure=str(failure))
                progress(f"{problem.name}, {name}: did not start: {failure}")
            entrants.append((worker, score, name, slow))
        for turn in range(runs):
            for worker, score, name, slow in entrants:
                if worker is None or (slow and turn > 0):
                    continue
                training = worker.train(turn + 1, curve=score is entrants[0][1])
                score.seconds.append(training.seconds)
                score.returns.append(training.reached)
                score.memory.append(training.memory)
                score.curves.append(training.curve)
                speed = problem.seeds * problem.steps / training.seconds
                progress(f"{problem.name}, {name}: run {turn + 1} of {runs}, {speed:,.0f} steps/s")
    return [score for _, score, _, _ in entrants]
