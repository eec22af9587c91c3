"""The life cycle of a long job: lock a folder, compile, advance in chunks, save, stop on a signal, finish, resume.

Runs, sweeps and evolutions are `LongJob`s. Everything that decides a number happens on the device and never depends on
how a job was cut into chunks: a job that was killed and resumed gives the same bits as one that was not.
"""

import abc
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import jax

from purerl.devices import distributed, process
from purerl.errors import InputError, printable
from purerl.host_environment import EnvironmentFailure
from purerl.reporting.display import Silent, duration, open_display
from purerl.reporting.files import remove_parts, write_whole
from purerl.run import checkpoint
from purerl.run.folders import lock
from purerl.run.stop import Stop
from purerl.settings.toml import JobKind
from purerl.trust import flags

T = TypeVar("T")
MOST_COUNT = 2**53  # largest count in a checkpoint
FAILURES = (EnvironmentFailure, checkpoint.SaveError, OSError, jax.errors.JaxRuntimeError)  # reported in one line


class LongJob(abc.ABC):
    """A long job, in one process or several. Subclasses define how to prepare, advance, save and finish it."""

    kind: ClassVar[JobKind]

    def __init__(
        self,
        folder: Path | None,
        display: str,
        *,
        from_python: bool = False,
        locked: bool = True,
        names: Sequence[str] = (),
    ):
        """Take the folder.

        Args:
          folder: the folder of the job; None: write nothing.
          display: "auto", "plain" or "none", as `purerl.reporting.display.open_display`.
          from_python: whether only Python, not a command, can resume the job.
          locked: keep other processes from writing there.
          names: the names of the environments and everything else that may be a module:name.
        """
        self.folder, self._display = folder, display
        self.first = distributed.is_first()
        self.display: Any = Silent()
        self.stop = Stop()
        self.metadata: dict[str, Any] = {"wall_seconds": 0.0, "compile_seconds": 0.0}  # the newest checkpoint's
        self.began = time.perf_counter()  # minus the seconds of earlier processes
        self.saved_time = time.monotonic()
        self.notices: list[str] = []  # lines about the folder, shown at the beginning
        self._resume: str | None = None
        self._lock: Any = None
        if folder is not None:
            command = f"purerl {self.kind.command} --resume {folder}{flags(*names)}"
            self._resume = self.kind.resume_call(folder) if from_python else command
        if locked and folder is not None:
            distributed.first_does(self._take_folder)

    def take_metadata(self, found: Mapping[str, object]) -> None:
        """Restore this job's counters from a checkpoint's metadata."""
        for name, own in self.metadata.items():
            value = found.get(name)
            if type(value) in (int, float) and -1 <= value <= MOST_COUNT:  # type: ignore[operator]
                self.metadata[name] = type(own)(value)

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        assert self.folder is not None
        return self.folder / "checkpoints"

    @property
    @abc.abstractmethod
    def position(self) -> int:
        """The completed work: a count that grows."""

    @abc.abstractmethod
    def done(self) -> bool:
        """Return whether the job is complete."""

    def already_finished(self) -> str:
        """Return the line to print if an earlier process finished the job; "" otherwise."""
        return ""

    @abc.abstractmethod
    def title(self) -> str:
        """Return the title of the display."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Compile, and open the logs."""

    @abc.abstractmethod
    def votes(self) -> tuple[int, ...]:
        """Return (whether to save now, then the arguments of `advance`); all processes use the first one's."""

    @abc.abstractmethod
    def advance(self, *votes: int) -> None:
        """Advance by one chunk."""

    @abc.abstractmethod
    def save(self) -> None:
        """Write everything that resuming needs."""

    @abc.abstractmethod
    def close_logs(self) -> None:
        """Close the logs."""

    @abc.abstractmethod
    def progress_text(self) -> str:
        """Return the progress of the job, such as "update 3 of 10"."""

    @abc.abstractmethod
    def finish(self) -> int:
        """Write the results and show them; return the exit code."""

    @contextlib.contextmanager
    def released_on_error(self) -> Iterator[None]:
        """Release the folder if the code inside fails: a stored exception would otherwise keep the lock."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the folder."""
        if self._lock is not None:
            self._lock.close()

    def write_settings(self, text: str) -> None:
        """Rewrite the folder's settings file, and lock the new file before the old one is released."""
        assert self.folder is not None
        write_whole(self.folder / self.kind.file, text)
        if self._lock is not None:
            before, self._lock = self._lock, lock(self.folder, self.kind)
            before.close()

    def complete(self) -> int:
        """Run the job to its end, or until a signal.

        Returns:
          The exit code: 128 and the signal's number if it was interrupted; 1 if an environment or the computation
          failed, or the disk did not take the last checkpoint or the results.
        """
        line = self.already_finished()
        if line:
            self.close()
            if self.first and self._display != "none":
                print(printable(line))
            return 0
        if self.first:
            self.display = open_display(self.title(), self._display)
        for line in self.notices:
            self.display.line(line)
        if distributed.several() and self._resume is not None:
            self.display.line(f"if one process dies, all of them exit; restart all of them with:\n  {self._resume}")
        try:
            with self.stop:
                self.prepare()
                self._advance()
                self.close_logs()
                return self._stopped() if self._agreed_to_stop() else self.finish()
        except KeyboardInterrupt:
            self.display.close()
            if self._resume is not None:
                print(printable(f"interrupted; {self._kept()}"))
            raise KeyboardInterrupt(int(self.stop.signal or signal.SIGINT)) from None
        except Exception as error:
            if isinstance(error, BrokenPipeError) or not (isinstance(error, FAILURES) or distributed.is_loss(error)):
                raise
            self.display.close()
            kept = "" if self.folder is None else f"\n{self._kept()}"
            self.display.line(f"{cause_of(error)}{kept}")
            if distributed.several():
                if not self.first:  # it has no display
                    print(printable(f"process {jax.process_index()}: {cause_of(error)}"), file=sys.stderr)
                process.leave(1)
            return 1
        finally:
            self.display.close()
            self.close()

    def succeed(self) -> None:
        """Run the job to its end; raise KeyboardInterrupt if it was stopped, and RuntimeError if it failed."""
        code = self.complete()
        if code > 128:
            raise KeyboardInterrupt(code - 128)
        if code:
            where = "" if self.folder is None else f" in {self.folder}"
            raise RuntimeError(f"the {self.kind.noun}{where} failed; the lines above give the reason")

    def compiled(self, compile_program: Callable[[], T]) -> T:
        """Return the result of `compile_program`; show and count the time that it takes."""
        self.display.stage("compiling")
        began = time.perf_counter()
        with self.stop.counts_at_once():
            program = compile_program()
        seconds = time.perf_counter() - began
        self.metadata["compile_seconds"] += seconds
        writing = f"; writing {self.folder}" if self.folder is not None else ""
        self.display.line(f"compiled in {duration(seconds)}{writing}")
        self.began = time.perf_counter() - self.metadata["wall_seconds"]
        return program

    def wall_seconds(self) -> float:
        """Return the seconds since the job began, including time in earlier processes."""
        return time.perf_counter() - self.began

    def _take_folder(self) -> str:
        assert self.folder is not None
        self._lock = lock(self.folder, self.kind)
        checkpoint.remove_unfinished(self.checkpoints)
        remove_parts(self.folder)
        return ""

    def _advance(self) -> None:
        saved_at, self.saved_time = self.position, time.monotonic()
        while not self.done():
            votes = distributed.agree(*self.votes(), self.stop.signal)
            stopping = votes[:, -1].max()  # a signal that arrives from here on counts in the next round, for all alike
            save, *arguments = votes[0, :-1].tolist()  # the clock of the first process decides
            if save and self.position > saved_at:
                saved_at = self._try_to_save(saved_at)
            if stopping:
                break
            self.advance(*arguments)
        if self.position > saved_at:
            self._save()

    def _agreed_to_stop(self) -> bool:
        """Return whether any process received a signal; all processes then act on it."""
        found = int(distributed.agree(self.stop.signal).max())
        self.stop.signal = found or self.stop.signal
        return bool(found)

    def _try_to_save(self, saved_at: int) -> int:
        """Try to save, and return the saved position; a failed write is reported and tried again later."""
        try:
            return self._save()
        except (checkpoint.SaveError, OSError) as error:
            if distributed.several():  # the others are in the middle of it
                raise
            told = f"{cause_of(error)}; the last checkpoint is kept, the next one is tried at the next interval"
            self.display.line(f"{self.progress_text()}: {told}")
            self.saved_time = time.monotonic()
            return saved_at

    def _save(self) -> int:
        if self.folder is not None:
            gone = distributed.first_does(self._gone)  # libraries below would make the folder again
            if gone:
                raise checkpoint.SaveError(gone)
            self.save()
        self.saved_time = time.monotonic()
        return self.position

    def _gone(self) -> str:
        """Return an error line if the job's folder has been replaced; "" otherwise."""
        assert self.folder is not None
        file = self.folder / self.kind.file
        with contextlib.suppress(OSError):
            found = file.stat()
            if self._lock is None or os.path.samestat(found, os.fstat(self._lock.fileno())):
                return ""
        return f"cannot write {self.folder}: it was moved or removed"

    def _kept(self) -> str:
        """Return which part of the job the folder holds, and the command that resumes it."""
        with contextlib.suppress(InputError):  # raised for checkpoints that are a link
            if not self.has_saved():
                return f"no checkpoint yet, start over with:\n  {self._resume}"
        return f"the last checkpoint is kept, resume with:\n  {self._resume}"

    def has_saved(self) -> bool:
        """Return whether the folder holds a state to resume from."""
        return bool(checkpoint.steps(self.checkpoints))

    def _stopped(self) -> int:
        self.display.close()
        at = f"stopped at {self.progress_text()}"
        if self._resume is None:
            self.display.line(at)
        else:
            self.display.line(f"{at}; resume with:\n  {self._resume}" if self.position else f"{at}; {self._kept()}")
        return 128 + self.stop.signal


def cause_of(error: Exception) -> str:
    """Return the reason that a job cannot continue, in one line."""
    if distributed.is_loss(error):
        return f"another process of this run stopped ({str(error).strip().splitlines()[0][:160]})"
    if isinstance(error, OSError):
        return f"cannot write {error.filename or 'a file'}: {error.strerror or error}"
    if isinstance(error, jax.errors.JaxRuntimeError):
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        places = re.findall(r'File "(.+)", line (\d+)', str(error))
        if places:  # what a callback raised
            return f"the computation failed: {lines[-1][:400]} ({':'.join(places[-1])})"
        return f"the computation failed: {lines[0][:400]}"
    return str(error)
