"""Frameworks that train on the same tasks, each in a process of its own, in turn."""

import contextlib
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from benchmarks.opponents import Opponent, command
from benchmarks.timing import tell

WORKERS = Path(__file__).parent / "workers"


class Task(NamedTuple):
    """What is to be trained."""

    name: str
    algorithm: str
    environment: str
    steps: int  # of the environment, of each seed
    settings: dict[str, Any]  # all of the algorithm's, by purerl's names
    seeds: int = 1
    parameters: dict[str, Any] | None = None  # of purerl's environment, with which it is what the opponents' is


class Failed(Exception):
    """A framework did not do a task; says why in a line."""


class Contender:
    """A framework that has built a task and trains when it is told to."""

    def __init__(self, task: Task, opponent: Opponent | None):
        """Start it.

        Raises:
          Failed: if it does not start, or cannot build the task.
        """
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in __exit__
        line = [sys.executable, str(WORKERS / "with_purerl.py")] if opponent is None else command(opponent, WORKERS)
        try:
            self.process = subprocess.Popen(
                line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
            )
        except OSError as error:
            self.errors.close()
            raise Failed(f"{line[0]}: {error.strerror}") from error
        checkout = opponent.checkout if opponent else None
        with self._told():
            self.compile_seconds = self._ask(json.dumps(task._asdict() | {"checkout": checkout}))["compile"]

    def train(self, seed: int) -> tuple[float, float]:
        """Return (seconds, the return that was reached) of one training.

        Raises:
          Failed: if it stops.
        """
        with self._told():
            answer = self._ask(str(seed))
        return answer["seconds"], answer["return"]

    def _ask(self, line: str) -> dict[str, float]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise BrokenPipeError
        return json.loads(answer)

    @contextlib.contextmanager
    def _told(self) -> Any:
        """Turn the end of the process into its last words."""
        try:
            yield
        except (BrokenPipeError, json.JSONDecodeError) as error:
            self.close()
            raise Failed(self.last_words) from error

    def close(self) -> None:
        """End it, and keep its last words."""
        if self.errors.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate(timeout=60)
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors.read().splitlines() if line.strip()]
        named = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception)\b", line)]  # notes may follow
        self.last_words = (named or lines or [f"it ended with {self.process.returncode}"])[-1][:200]
        self.errors.close()

    def __enter__(self) -> "Contender":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.process.kill()
        self.close()


class Score(NamedTuple):
    """What one framework did on one task."""

    seconds: list[float]  # of each training
    compile_seconds: float
    reached: float  # the mean return
    failure: str | None = None


def contest(task: Task, opponents: Sequence[Opponent], runs: int) -> list[Score]:
    """Let purerl and its opponents train in turn, A B A B; return their scores, purerl's first.

    A slow opponent takes part in the first round only, and none but those counts a first training as a warm-up.
    """
    with contextlib.ExitStack() as stack:
        scores: list[Score] = []
        there: list[Contender | None] = []
        named = [("purerl", None), *((opponent.name, opponent) for opponent in opponents)]
        for name, opponent in named:
            try:
                contender = stack.enter_context(Contender(task, opponent))
                if opponent is None or not opponent.slow:
                    contender.train(0)
                there.append(contender)
                scores.append(Score([], contender.compile_seconds, 0.0))
                tell(f"{task.name}, {name}: compiled in {contender.compile_seconds:.1f} s")
            except Failed as failure:
                if opponent is None:
                    raise
                tell(f"{task.name}, {name}: did not start: {failure}")
                there.append(None)
                scores.append(Score([], math.nan, math.nan, str(failure)))
        for turn in range(runs):
            for place, (contender, (name, opponent)) in enumerate(zip(there, named, strict=True)):
                if contender is None or (opponent is not None and opponent.slow and turn > 0):
                    continue
                seconds, reached = contender.train(turn + 1)
                score = scores[place]
                score.seconds.append(seconds)
                total = score.reached * (len(score.seconds) - 1) + reached
                scores[place] = score._replace(reached=total / len(score.seconds))
                speed = task.seeds * task.steps / seconds
                tell(f"{task.name}, {name}: run {turn + 1} of {runs}, {speed:,.0f} steps/s")
    return scores
