"""Runs a compiler in a thread, while the main thread waits in a way that signals can interrupt."""

import contextvars
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
POLL = 0.01  # seconds


def in_background(function: Callable[[], T]) -> T:
    """Call a function that may spend long in C++, where Python's signal handlers do not run, and return its result.

    A handler that raises ends the wait; the thread runs on.
    """
    found: dict[str, Any] = {}

    def run() -> None:
        try:
            found["result"] = function()
        except BaseException as error:
            found["error"] = error

    context = contextvars.copy_context()  # what is trusted here is trusted there
    thread = threading.Thread(target=context.run, args=(run,), daemon=True, name="purerl compiler")
    thread.start()
    while thread.is_alive():
        time.sleep(POLL)
    if "error" in found:
        raise found["error"]
    return found["result"]
