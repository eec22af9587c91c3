"""A long job's life: signals, folders, locks, and the loop of chunks."""

import os
import signal
import threading

import pytest

from purerl.errors import InputError
from purerl.run import lifecycle
from purerl.run.lifecycle import LongJob, Stop, enter_folder
from purerl.settings.toml import RUN, SWEEP


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


def test_folders_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [str(lifecycle.new_folder(None, "ppo", "gymnax/Thing:1")) for _ in range(3)]
    assert names == [f"runs/ppo-gymnax-Thing-1-{n}" for n in (1, 2, 3)]
    assert lifecycle.new_folder(tmp_path / "mine" / "run", "ppo").is_dir()
    with pytest.raises(InputError, match=r"mine.run exists; name another --out, or go on there with --resume"):
        lifecycle.new_folder(tmp_path / "mine" / "run", "ppo")


def test_a_folder_has_one_writer(tmp_path):
    (tmp_path / "config.toml").write_text("")
    held = lifecycle.lock(tmp_path, RUN)
    with pytest.raises(InputError, match="is in use: another process is training there"):
        lifecycle.lock(tmp_path, RUN)
    held.close()
    lifecycle.lock(tmp_path, RUN).close()


def test_a_folder_is_held_to_what_it_is_to_say(tmp_path):
    file = tmp_path / "sweep.toml"
    with pytest.raises(InputError, match=r"there is no sweep in .*: it has no sweep\.toml"):
        lifecycle.check_same(file, "a = 1\n", "sweep")
    file.write_text("a = 1\ndevices = 2\nb = 2\n")
    lifecycle.check_same(file, "a = 1\nb = 2\ndevices = 8\n", "sweep")
    with pytest.raises(InputError, match="holds another sweep: it has 'b = 2' where this one has 'b = 3'"):
        lifecycle.check_same(file, "a = 1\nb = 3\n", "sweep")
    with pytest.raises(InputError, match="holds another sweep"):
        lifecycle.check_same(file, "a = 1\nb = 2\nc = 3\n", "sweep")


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
    lifecycle.lock(tmp_path / "job", RUN).close()  # it is free again
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


def test_a_folder_is_entered_anew_or_again(tmp_path):
    out = tmp_path / "sweep"
    assert enter_folder(SWEEP, out, (), "a = 1\n", resume=True) == (out, False)
    assert (out / "sweep.toml").read_text() == "a = 1\n"
    assert enter_folder(SWEEP, out, (), "a = 1\n", resume=True) == (out, True)
    with pytest.raises(InputError, match="holds another sweep"):
        enter_folder(SWEEP, out, (), "a = 2\n", resume=True)
    with pytest.raises(InputError, match="exists; name another --out"):
        enter_folder(SWEEP, out, (), "a = 1\n")
