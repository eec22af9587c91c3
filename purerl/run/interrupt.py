"""Signals that ask a run to stop."""

import signal
import threading
from typing import Any


class Stop:
    """Notes Ctrl-C and SIGTERM; a second one ends the process at once."""

    def __init__(self) -> None:
        self.signal = 0

    def __enter__(self) -> "Stop":
        main = threading.current_thread() is threading.main_thread()  # elsewhere Python forbids it
        numbers = (signal.SIGINT, signal.SIGTERM) if main else ()
        self._before = {number: signal.signal(number, self._note) for number in numbers}
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: Any) -> None:
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number
