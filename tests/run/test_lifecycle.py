"""A long job's life: signals, and the loop of chunks."""

import os
import signal
import threading

import pytest

from purerl.run.folders import enter_folder, lock
from purerl.run.lifecycle import LongJob, Stop
from purerl.settings.toml import RUN


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


class Counting(LongJob):
    """Counts to six, two at a time, and saves at four; `strike` is called after each chunk."""

    kind = RUN

    def __init__(self, folder, strike=lambda job: None):
        super().__init__(folder, plain=True)
        self.count, self.strike, self.events = 0, strike, []

    @property
    def position(self):
        return self.count

    def done(self):
        return self.count >= 6

    def title(self):
        return "counting"

    def prepare(self):
        self.events.append(self.compiled(lambda: "compiled"))

    def votes(self):
        return self.count == 4, 2

    def advance(self, *votes):
        (num,) = votes
        self.count += num
        self.strike(self)

    def save(self):
        self.events.append(f"saved {self.count}")

    def close_logs(self):
        self.events.append("closed")

    def progress_text(self):
        return f"{self.count} of 6"

    def finish(self):
        self.events.append("finished")
        return 0


def job_in(tmp_path, *arguments):
    folder, _ = enter_folder(RUN, tmp_path / "job", (), "a = 1\n")
    return Counting(folder, *arguments)


def test_a_job_saves_on_its_way_and_at_the_end(tmp_path, capsys):
    job = job_in(tmp_path)
    assert job.complete() == 0
    assert job.events == ["compiled", "saved 4", "saved 6", "closed", "finished"]
    assert "; writing " in capsys.readouterr().out
    lock(tmp_path / "job", RUN).close()  # it is free again
    assert Counting(None).complete() == 0, "without a folder nothing is saved"


def test_a_signal_stops_between_chunks_and_saves(tmp_path, capsys):
    job = job_in(tmp_path, lambda job: os.kill(os.getpid(), signal.SIGTERM))
    assert job.complete() == 128 + signal.SIGTERM
    assert job.events == ["compiled", "saved 2", "closed"]
    out = capsys.readouterr().out
    assert f"stopped at 2 of 6; go on with:\n  purerl train --resume {tmp_path / 'job'}" in out


def test_a_second_signal_ends_at_once(tmp_path, capsys):
    def strike(job):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    job = job_in(tmp_path, strike)
    with pytest.raises(KeyboardInterrupt):
        job.complete()
    assert job.events == ["compiled"] and "interrupted; the last checkpoint is kept" in capsys.readouterr().out
