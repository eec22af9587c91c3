"""This process, and how it ends where Python's own end would wait or abort."""

import contextlib
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process at once: threads are not waited for, nothing registered for its end is called."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
