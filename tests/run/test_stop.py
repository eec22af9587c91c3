"""The signals that stop a job."""

import os
import signal
import sys
import threading

import pytest

from purerl.run.stop import Stop


@pytest.fixture(autouse=True)
def hangups_arrive():
    """Tests that were started by nohup ignore them otherwise."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_is_noted_and_the_second_ends(number):
    before = signal.getsignal(number)
    with Stop() as stop:
        assert stop.signal == 0
        os.kill(os.getpid(), number)
        assert stop.signal == number
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before, "the handlers are those of before"


@pytest.mark.long
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


@pytest.mark.long
def test_a_signal_where_python_cannot_raise_is_remembered_in_silence(capsys, monkeypatch):
    """In a callback of the garbage collector, for example, Python would print a traceback and continue."""

    class Struck:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)  # pytest has its own
    with Stop() as stop:
        stop.at_once = True
        one = Struck()
        del one
        assert stop.signal == signal.SIGINT
        assert capsys.readouterr().err == ""
