"""Runs commands of purerl in processes that are forked from one that has imported everything."""

import atexit
import contextlib
import functools
import multiprocessing
import os
import resource
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.workers.protocol import peak_memory

PRELOAD = [
    *(f"purerl.commands.{name}" for name in ("train", "sweep", "evolve", "evaluate", "plot", "compare")),
    *("purerl.run.opening", "purerl.sweeps.sweep", "purerl.evolution.evolve", "purerl.reporting.plot"),
    *("orbax.checkpoint", "matplotlib.pyplot", "benchmarks.faults.runner"),
]
EMPTY_PICTURES = "FAULTS_EMPTY_PICTURES"  # if it is set, curves are not drawn, which takes a third of a short command
HUNG = "hung"  # the code of a process that did not end in its time
TIMEOUT = 240.0  # seconds that a command may take


class Done(NamedTuple):
    """A command that has ended."""

    code: int | str  # negative: the signal that ended it; `HUNG`
    text: str  # stdout and stderr
    seconds: float
    command: str  # to type
    bytes: int = 0  # the most memory that the process had, if it came to its end

    @property
    def traceback(self) -> bool:
        """Whether a user would see one."""
        return any(word in self.text for word in ("Traceback (most recent", "Fatal Python error", "*** SIG"))

    @property
    def last_line(self) -> str:
        """What it said last."""
        lines = [line for line in self.text.strip().splitlines() if line.strip()]
        return lines[-1][:200] if lines else "nothing was printed"


class Running:
    """A command at work."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        limits: Mapping[str, int] | None = None,
        strike: int = 0,
        within: str = "",
        first: Callable[[], object] | None = None,
    ):
        """Start it.

        Args:
          words: arguments after `purerl`.
          env: environment variables to set, or to remove if None.
          cwd: working directory of the command.
          limits: resource limits of the operating system, such as {"RLIMIT_NOFILE": 24}.
          strike: after so many file operations within a folder, the process ends itself by SIGKILL; 0: never.
          within: that folder.
          first: is called in the process before the command.
        """
        context = _context()
        self._said, (self._screen, output) = bytearray(), context.Pipe(duplex=False)
        handle, self._memory = tempfile.mkstemp(prefix="memory-")
        os.close(handle)
        about = (list(words), dict(env or {}), cwd, output, self._memory, dict(limits or {}), strike, within, first)
        self._process: Any = context.Process(target=_command, args=about)
        self._process.start()
        output.close()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._began = time.monotonic()
        extras = [f"{name}={value}" for name, value in (env or {}).items()]
        extras += [f"{name}={value}" for name, value in (limits or {}).items()]
        self.command = shlex.join([*extras, "purerl", *map(str, words)])

    def signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self._process.exitcode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def signal_group(self, number: int) -> None:
        """Send a signal to it and to all processes that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def alive(self) -> bool:
        """Return whether it is still at work."""
        return self._process.is_alive()

    def resident(self) -> int:
        """Return the bytes of memory that it has, on Linux; 0 if it has ended."""
        with contextlib.suppress(OSError, IndexError):
            return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * resource.getpagesize()
        return 0

    def _read(self) -> None:
        while part := os.read(self._screen.fileno(), 65536):
            self._said += part

    def so_far(self) -> str:
        """Return what it printed."""
        return self._said.decode(errors="replace")

    def wait(self, seconds: float = TIMEOUT) -> Done:
        """Wait for its end; what is left of its processes is ended, too."""
        self._process.join(seconds)
        code = HUNG if self._process.exitcode is None else self._process.exitcode
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.join(10)
        self._reader.join(10)
        most = int(Path(self._memory).read_text() or 0)
        Path(self._memory).unlink()
        seconds = time.monotonic() - self._began
        return Done(code=code, text=self.so_far(), seconds=seconds, command=self.command, bytes=most)


def run(*words: str, seconds: float = TIMEOUT, **how: Any) -> Done:
    """Run a command to its end; `how` as for `Running`."""
    return Running(words, **how).wait(seconds)


def _context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", _compiled().name)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    return context


@functools.cache
def _compiled() -> tempfile.TemporaryDirectory:
    """Return the folder of programs that all commands share, and that ends with this process."""
    return tempfile.TemporaryDirectory(prefix="faults-compiled-", ignore_cleanup_errors=True)


def _command(
    words: list[str],
    env: dict[str, str | None],
    cwd: Path | None,
    screen: Any,
    memory: str,
    limits: dict[str, int],
    strike: int,
    within: str,
    first: Callable[[], object] | None,
) -> None:
    os.setsid()
    for number in (1, 2):
        os.dup2(screen.fileno(), number)
    screen.close()
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    for name, value in env.items():
        os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
    if cwd is not None:
        os.chdir(cwd)
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, name), (value, value))
    if strike:
        sys.addaudithook(_striker(strike, within))
    if first is not None:
        first()
    if os.environ.get(EMPTY_PICTURES):
        from purerl.reporting import plot

        plot.panel = lambda *_, **__: None
    from purerl.commands import cli

    sys.argv = ["purerl", *words]
    code: Any = 0
    try:
        cli.main()
    except SystemExit as error:
        code = error.code
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    atexit._run_exitfuncs()  # as at the end of a process that was not forked
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    with contextlib.suppress(OSError):
        Path(memory).write_text(str(peak_memory()))
    os._exit(code if isinstance(code, int) else 1)


CHANGES = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree", "os.link")


def _striker(count: int, within: str) -> Callable[[str, tuple], None]:
    """Return a hook that ends the process at the `count`th operation on a file of a folder."""
    seen = 0

    def hook(event: str, args: tuple) -> None:
        nonlocal seen
        if event in CHANGES and any(isinstance(arg, str | Path) and within in str(arg) for arg in args[:2]):
            seen += 1
            if seen == count:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook
