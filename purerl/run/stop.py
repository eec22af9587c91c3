"""The signals that stop a long job: recorded until the job has saved."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any


class Stop:
    """Records Ctrl-C, SIGTERM and the end of the terminal; a second signal ends the process at once.

    Under nohup, which ignores it, the end of the terminal stays ignored.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.at_once = False  # whether the first one ends the process, too: there is nothing to save

    def __enter__(self) -> "Stop":
        main = threading.current_thread() is threading.main_thread()  # elsewhere Python forbids it
        numbers = [signal.SIGINT, signal.SIGTERM] if main else []
        if main and hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        self._before = {number: signal.signal(number, self._receive) for number in numbers}
        self._hook = sys.unraisablehook
        sys.unraisablehook = self._unraisable
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if sys.unraisablehook == self._unraisable:  # another may have been put before it
            sys.unraisablehook = self._hook

    @contextlib.contextmanager
    def counts_at_once(self, really: bool = True) -> Iterator[None]:
        """Let the first signal also raise KeyboardInterrupt, because there is nothing to save."""
        self.at_once = really
        try:
            yield
        finally:
            self.at_once = False

    def _unraisable(self, told: Any) -> None:
        """Ignore an interrupt that arrived where Python cannot raise it: it takes effect afterward."""
        if told.exc_type is not KeyboardInterrupt:
            self._hook(told)

    def _receive(self, number: int, _: object) -> None:
        again, self.signal = bool(self.signal), self.signal or number
        if hasattr(signal, "SIGHUP") and number == signal.SIGHUP:
            _leave_terminal()
        if again or self.at_once:
            raise KeyboardInterrupt


def _leave_terminal() -> None:
    """Discard further output: writing to a closed terminal would raise before the work is saved."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        if os.isatty(number):
            os.dup2(nowhere, number)
    os.close(nowhere)
