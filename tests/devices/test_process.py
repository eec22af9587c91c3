"""A process that exits writes its last output, and waits for no other process."""

import subprocess
import sys

import pytest

STUCK = """
import atexit, contextlib, sys, threading, time
from purerl.devices.process import leave
threading.Thread(target=time.sleep, args=(60,)).start()
atexit.register(print, "at its end")
with contextlib.suppress(BrokenPipeError):  # unbuffered output fails here
    sys.stdout.write("said")
leave(7)
"""


def test_it_ends_beside_a_thread_that_does_not():
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (7, "said", "")


@pytest.mark.long
def test_it_ends_where_nobody_reads():
    with subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.wait(timeout=30) == 7
