"""Signals that ask a run to stop."""

import os
import signal
import threading

import pytest

from purerl.run.interrupt import Stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_is_noted_and_the_second_ends(number):
    before = signal.getsignal(number)
    with Stop() as stop:
        assert stop.signal == 0
        os.kill(os.getpid(), number)
        assert stop.signal == number
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before, "the handlers are those of before"


def test_in_another_thread_nothing_is_changed():
    """Python allows handlers in the main thread alone."""
    before, seen = signal.getsignal(signal.SIGINT), []

    def run():
        with Stop():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
