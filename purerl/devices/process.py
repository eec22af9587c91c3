"""Ends this process when Python's own exit would wait or abort."""

import contextlib
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process at once, without waiting for threads or running exit handlers."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
