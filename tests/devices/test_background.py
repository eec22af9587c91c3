"""Waiting for a compiler: signals, results and errors arrive."""

import signal
import threading
import time

import pytest

from purerl.devices.background import in_background


def test_what_a_function_returns_and_raises():
    assert in_background(lambda: (7, threading.current_thread().name)) == (7, "purerl compiler")
    with pytest.raises(ZeroDivisionError):
        in_background(lambda: 1 // 0)


def test_a_signal_ends_the_wait():
    def strike(*_):
        raise KeyboardInterrupt

    release, before = threading.Event(), signal.signal(signal.SIGALRM, strike)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            in_background(lambda: release.wait(60))
        assert time.monotonic() - began < 2
    finally:
        release.set()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
