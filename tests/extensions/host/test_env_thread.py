"""The thread that steps environments, and how long it works."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from purerl.extensions.host import env_thread
from purerl.extensions.host.env_thread import Busy, Worker
from purerl.host_environment import EnvironmentFailure, HostEnvironment


def test_busy_is_the_time_in_which_any_works():
    busy, began = Busy(), time.perf_counter()
    with busy, busy:  # two at once
        time.sleep(0.05)
    worked = busy.seconds
    time.sleep(0.2)
    assert busy.seconds == worked and 0.05 <= worked <= time.perf_counter() - began - 0.2


def test_a_hanging_rollout_is_not_waited_for_longer_than_others_took():
    free = threading.Event()
    worker = Worker(HostEnvironment(), {"environment": "test", "seed": 0}, 0.2, None, Busy())
    assert worker.call(lambda: time.sleep(0.02) or 7, "a rollout", 1000) == 7
    with pytest.raises(EnvironmentFailure, match=r"test \(seed 0\) hangs in a rollout: no answer within [0-9.]+ s$"):
        worker.call(lambda: free.wait(300.0), "a rollout", 1000)
    assert not free.is_set()
    free.set()
    worker.close()


def raises(error):
    raise error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ChildProcessError("its process died (exit code 9)"), "ended in a step: its process died \\(exit code 9\\)$"),
        (SystemExit(7), "raised in a step: SystemExit: 7$"),
        (ValueError("one\ntwo"), "raised in a step: ValueError: one two$"),
    ],
)
def test_whatever_ends_a_step_is_told_at_once(error, told):
    worker = Worker(HostEnvironment(), {"environment": "test", "seed": 0}, 30.0, None, Busy())
    with pytest.raises(EnvironmentFailure, match=rf"^test \(seed 0\) {told}"):
        worker.call(lambda: raises(error), "a step", 1)
    worker.close()


STOPPED = """
import os, subprocess, time
from purerl.extensions.host.env_thread import Busy, HostEnvironment, Worker
worker = Worker(HostEnvironment(), {"environment": "test", "seed": 0}, 2.0, None, Busy())
me = os.getpid()
subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -STOP {me}; sleep 3; kill -CONT {me}"])
def step():
    for _ in range(10):
        time.sleep(0.1)
    return 7
began = time.monotonic()
assert worker.call(step, "a step", 1) == 7 and time.monotonic() - began > 3
os._exit(0)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_a_process_that_was_stopped_for_a_while_goes_on():
    done = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


FORKS = """
import os
from purerl.extensions.host.env_thread import Busy, HostEnvironment, Worker
worker = Worker(HostEnvironment(), {"environment": "test"}, 30.0, None, Busy())
child = worker.call(lambda: os.fork() or os._exit(8), "a step", 1)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.long
def test_an_environment_that_ends_the_process_is_told_and_elsewhere_nothing_changes():
    worker = Worker(HostEnvironment(), {"environment": "test", "seed": 0}, 30.0, None, Busy())
    with pytest.raises(EnvironmentFailure, match=r"ended in a step: it called os\._exit, its exit code 9$"):
        worker.call(lambda: os._exit(9), "a step", 1)
    worker.close()
    forked = subprocess.run([sys.executable, "-c", FORKS], check=False, timeout=60)
    assert forked.returncode == 8, "a forked process ends as ever"


def test_the_record_of_actions_has_a_size(monkeypatch):
    monkeypatch.setattr(env_thread, "HISTORY_BYTES", 100)
    worker = Worker(HostEnvironment(), {"environment": "test", "seed": 0}, 2.0, None, Busy())
    worker.env.step = lambda action, keys, t: action  # type: ignore[method-assign]
    for i in range(9):
        worker.send(np.full((2, 3), i, np.float32), None, i)
        worker.recv()
    assert [leaf[0, 0] for (leaf,) in worker._actions] == [5, 6, 7, 8], "24 bytes each"
    worker.close()
