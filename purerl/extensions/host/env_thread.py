"""A thread that steps environments, so that the main thread can wait with a time limit."""

import contextlib
import functools
import json
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar, TypeVarTuple

import jax
import numpy as np

from purerl.host_environment import EnvironmentFailure, HostEnvironment, HostStep
from purerl.types import Key, PyTree

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

HISTORY = 100_000  # steps whose actions are recorded, at most
HISTORY_BYTES = 64 * 2**20  # bytes of these actions, at most
PARTS = 10  # number of waits into which a time limit is split


class Busy:
    """A clock of the time during which at least one of several workers is busy."""

    def __init__(self) -> None:
        self._lock, self._working, self._since, self._seconds = threading.Lock(), 0, 0.0, 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._working == 0:
                self._since = time.perf_counter()
            self._working += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._working -= 1
            if self._working == 0:
                self._seconds += time.perf_counter() - self._since

    @property
    def seconds(self) -> float:
        """The seconds until now."""
        with self._lock:
            return self._seconds + (time.perf_counter() - self._since if self._working else 0.0)


class Worker:
    """A thread that steps one batch of environments and records the actions."""

    def __init__(
        self, env: HostEnvironment, about: dict[str, object], time_limit: float, failures: Path | None, busy: Busy
    ):
        """Start the thread.

        Args:
          env: the environments.
          about: written down if they fail: their id, seed, settings.
          time_limit: seconds that a step may take.
          failures: the folder to write to; None: nothing is written.
          busy: counts the time in which environments step.
        """
        self.env, self._about, self._limit, self._failures, self._busy = env, about, time_limit, failures, busy
        self._jobs: queue.SimpleQueue = queue.SimpleQueue()
        self._results: queue.SimpleQueue = queue.SimpleQueue()
        self._actions: deque[list[np.ndarray]] = deque()  # the leaves of each
        self._resets: list[int] = []  # the numbers of steps before each reset of all environments
        self.steps, self._longest = 0, 0.0  # seconds of a `call`
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"purerl host {about['environment']}")
        self._thread.steps_environments = True  # type: ignore[attr-defined]
        _catch_exit()
        self._thread.start()

    def reset(self, key: Key | None) -> PyTree:
        """Start episodes and return the observations."""
        self._resets.append(self.steps)
        self._jobs.put((self.env.reset, (key,)))
        return self._wait("reset")

    def send(self, action: np.ndarray, keys: object, t: int) -> None:
        """Send actions without waiting for the step."""
        kept = [np.array(leaf) for leaf in jax.tree.leaves(action)]  # a view would keep the device's buffer
        if not self._actions:
            size = sum(leaf.nbytes for leaf in kept)
            self._actions = deque(maxlen=max(1, min(HISTORY, HISTORY_BYTES // max(size, 1))))
        self._actions.append(kept)
        self.steps += 1
        self._jobs.put((self.env.step, (action, keys, t)))

    def recv(self) -> HostStep:
        """Return the step that was sent.

        Raises:
          EnvironmentFailure: if the environment raised, or took too long.
        """
        return self._wait(f"step {self.steps}")

    def call(self, function: Callable[[], Any], what: str, steps: int) -> Any:
        """Run a function of this many steps in the thread; see `recv`.

        The time limit is the sum over the steps; after the first call, at most one step's plus ten times the longest
        call so far.
        """
        self.steps += steps
        self._actions.clear()
        self._jobs.put((function, ()))
        limit, began = steps * self._limit, time.monotonic()
        result = self._wait(what, min(limit, self._limit + 10 * self._longest) if self._longest else limit)
        self._longest = max(self._longest, time.monotonic() - began)
        return result

    def close(self) -> None:
        """Stop the thread and close the environments; a thread that hangs is left until the process ends."""
        self._jobs.put(None)
        self._thread.join(timeout=2.0)
        with contextlib.suppress(Exception):
            self.env.abandon() if self._thread.is_alive() else self.env.close()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._busy:
                result = _call(*job)
            self._results.put(result)

    def _wait(self, what: str, limit: float | None = None) -> Any:
        limit = limit or self._limit
        try:
            result = self._answer(limit)
        except queue.Empty:
            raise self._failure(what, None, limit) from None
        if isinstance(result, BaseException):
            raise self._failure(what, result, limit) from result
        return result

    def _answer(self, limit: float) -> Any:
        """Return the thread's answer.

        It waits in parts, so that a time in which the whole process was stopped, as by Ctrl-Z, counts as one of them.

        Raises:
          queue.Empty: if there is no answer within `limit` seconds.
        """
        for _ in range(PARTS - 1):
            with contextlib.suppress(queue.Empty):
                return self._results.get(timeout=limit / PARTS)
        return self._results.get(timeout=limit / PARTS)

    def _failure(self, what: str, error: BaseException | None, limit: float) -> EnvironmentFailure:
        happened, message = "hangs", f"no answer within {round(limit, 1):g} s"
        if isinstance(error, ChildProcessError | Exited):
            happened, message = "ended", str(error)
        elif error is not None:
            said = (
                str(error).strip().splitlines()[-1:] if isinstance(error, jax.errors.JaxRuntimeError) else [str(error)]
            )
            happened, message = "raised", " ".join(f"{type(error).__name__}: {''.join(said)}".split())
        where = getattr(error, "env_id", None)
        which = (
            f"environment {where} of {self._about['environment']}" if where is not None else self._about["environment"]
        )
        recorded = self._failures is not None and self._actions  # there are none of steps inside jit
        saved = f"; the actions are in {self._save(message, where)}" if recorded else ""
        return EnvironmentFailure(f"{which} (seed {self._about['seed']}) {happened} in {what}: {message}{saved}")

    def _save(self, message: str, where: int | None) -> Path:
        assert self._failures is not None
        self._failures.mkdir(parents=True, exist_ok=True)
        path = self._failures / f"failure-{self._about['group']}.npz"
        leaves = [np.stack(leaf) for leaf in zip(*self._actions, strict=True)]
        arrays = {f"actions{i or ''}": leaf for i, leaf in enumerate(leaves)}
        with _new(path) as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        record = self._about | {
            "error": message,
            "env_id": where,
            "steps": self.steps,
            "from_step": self.steps - len(self._actions),
            "resets": self._resets,
        }
        with _new(path.with_suffix(".json")) as file:
            file.write((json.dumps(record, indent=2, default=str) + "\n").encode())
        return path


class Exited(BaseException):
    """An environment called os._exit in this process, which would have ended it without a message."""


@functools.cache
def _catch_exit() -> None:
    """Make os._exit raise `Exited` in environment threads; elsewhere and in forked processes it works as usual."""
    leave, pid = os._exit, os.getpid()

    def exit_or_raise(status: int) -> NoReturn:
        if getattr(threading.current_thread(), "steps_environments", False) and os.getpid() == pid:
            raise Exited(f"it called os._exit, its exit code {status}")
        leave(status)

    os._exit = exit_or_raise


def _new(path: Path) -> IO[bytes]:
    """Open a new file that replaces an older one; a link is removed, not followed."""
    path.unlink(missing_ok=True)
    return path.open("xb")


def _call(function: Callable[[*Ts], R], args: tuple[*Ts]) -> R | BaseException:
    try:
        return function(*args)
    except BaseException as error:  # what an environment raises, sys.exit too, `_wait` raises in the main thread
        return error
