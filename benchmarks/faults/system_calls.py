"""System calls that fail at a chosen call, and a wall clock that jumps, in the processes of a campaign.

A small C library is loaded before every command by LD_PRELOAD; it does nothing until it is armed.
"""

import ctypes
import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults.tally import NotHere

SOURCE = Path(__file__).with_suffix(".c")
LASTING = 10**9  # calls: all until the process ends
HALF, KILL, TORN, MIXED = -1, -2, -3, -4  # as in the source
ERRORS = {name: getattr(errno, name) for name in ("ENOSPC", "EIO", "EINTR", "EMFILE", "EDQUOT", "EROFS")}
ERRORS |= {"none": 0, "half": HALF, "kill": KILL, "torn": TORN, "mixed": MIXED}


class Fault(NamedTuple):
    """What happens to the calls of one kind on the files of a folder."""

    call: str  # write, rename, fsync, mkdir or open; all
    error: str  # a key of `ERRORS`
    nth: int  # the first one it happens to
    within: str  # the folder
    marks: str  # a file that gets the first letter of each
    among: int = LASTING  # how many calls it may happen to
    every: int = 1  # to one in so many of these


def build(folder: Path) -> None:
    """Compile the library, and let it be loaded by the processes that start from now on.

    Raises:
      NotHere: without a C compiler, or on another system.
    """
    compiler, library = shutil.which("cc"), folder / "system_calls.so"
    made = compiler and subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, SOURCE], check=False)
    if not made or made.returncode:
        raise NotHere("no C compiler makes the library of failing calls")
    os.environ["LD_PRELOAD"] = str(library)


def arm(fault: Fault) -> None:
    """Let calls of this process fail."""
    words = (fault.within.encode(), fault.call.encode(), ctypes.c_int(ERRORS[fault.error]))
    counts = (ctypes.c_long(fault.nth), ctypes.c_long(fault.among), ctypes.c_long(fault.every), fault.marks.encode())
    ctypes.CDLL(None).faults_arm(*words, *counts)


def jump(seconds: int) -> None:
    """Let the wall clock of this process jump back and forth."""
    ctypes.CDLL(None).faults_jump(ctypes.c_long(seconds))
