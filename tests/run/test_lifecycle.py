"""A long job's life: signals, and the loop of chunks."""

import os
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from purerl.commands import cli
from purerl.devices import distributed
from purerl.run import checkpoint
from purerl.run.folders import enter_folder, lock
from purerl.run.lifecycle import LongJob
from purerl.settings.toml import RUN
from tests.helpers.processes import own_devices


@pytest.fixture(autouse=True)
def hangups_arrive():
    """Tests that were started by nohup ignore them otherwise."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


class Counting(LongJob):
    """Counts to six, two at a time, and saves at four; `strike` is called after each chunk."""

    kind = RUN

    def __init__(self, folder, strike=lambda job: None, from_python=False):
        super().__init__(folder, "plain", from_python=from_python)
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_between_chunks_and_saves(number, tmp_path, capsys):
    job = job_in(tmp_path, lambda job: os.kill(os.getpid(), number))
    assert job.complete() == 128 + number
    assert job.events == ["compiled", "saved 2", "closed"]
    out = capsys.readouterr().out
    assert f"stopped at 2 of 6; resume with:\n  purerl train --resume {tmp_path / 'job'}" in out


def test_a_job_that_python_alone_resumes_says_how(tmp_path, capsys):
    job_in(tmp_path, lambda job: os.kill(os.getpid(), signal.SIGTERM), True).complete()
    told = capsys.readouterr().out
    assert f"resume with:\n  purerl.resume('{tmp_path / 'job'}', algorithm=..., environment=...)" in told


def test_a_second_signal_ends_at_once(tmp_path, capsys):
    def strike(job):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    job = job_in(tmp_path, strike)
    with pytest.raises(KeyboardInterrupt):
        job.complete()
    assert job.events == ["compiled"] and "interrupted; no checkpoint yet, start over with:" in capsys.readouterr().out


def test_under_nohup_the_end_of_the_terminal_stays_ignored(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        job = job_in(tmp_path, lambda job: os.kill(os.getpid(), signal.SIGHUP))
        assert job.complete() == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_compiling_ends_at_once(number, tmp_path, monkeypatch):
    """There is nothing to save; the code that the process ends with is the signal's."""
    job = job_in(tmp_path)

    def compile_program():
        os.kill(os.getpid(), number)
        time.sleep(60)

    monkeypatch.setattr(job, "prepare", lambda: job.compiled(compile_program))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as caught:
        job.complete()
    assert time.monotonic() - began < 2 and caught.value.args == (number,)
    assert cli._signal_of(caught.value) == number


@pytest.mark.parametrize(
    "error", [checkpoint.SaveError("cannot write x: disk full"), OSError(28, "disk full", "x"), OSError(5, "disk full")]
)
def test_a_save_that_fails_is_told_and_tried_again(error, tmp_path, capsys, monkeypatch):
    job, save, failing = job_in(tmp_path), Counting.save, [error]

    def fail_once(self):
        if failing:
            raise failing.pop()
        save(self)

    monkeypatch.setattr(Counting, "save", fail_once)
    assert job.complete() == 0
    assert job.events == ["compiled", "saved 6", "closed", "finished"]
    out = capsys.readouterr().out
    assert out.count("cannot write") == 1 and "disk full; the last checkpoint is kept, the next one is tried" in out


def test_a_folder_that_is_moved_away_is_told_and_not_made_again(tmp_path, capsys):
    job = job_in(tmp_path, lambda job: (tmp_path / "job").rename(tmp_path / "moved") if job.count == 2 else None)
    assert job.complete() == 1 and job.events == ["compiled"]
    out = capsys.readouterr().out
    assert out.count(f"cannot write {tmp_path}/job: it was moved or removed") == 2 and not (tmp_path / "job").exists()


def test_a_signal_of_another_process_stops_this_one_and_one_in_between_waits(tmp_path, monkeypatch):
    """A process acts only on what all have agreed on; otherwise, the others would wait for it forever."""
    job = job_in(tmp_path, lambda job: None)
    agreed = []

    def agree(*numbers):
        agreed.append(numbers[-1])
        if len(agreed) == 2:  # after this round's votes, before they are used
            job.stop.signal = signal.SIGTERM
        return np.array([numbers])

    monkeypatch.setattr(distributed, "agree", agree)
    assert job.complete() == 128 + signal.SIGTERM
    assert job.events == ["compiled", "saved 4", "closed"] and agreed == [0, 0, signal.SIGTERM, signal.SIGTERM]


def test_a_last_save_that_fails_ends_with_code_1(tmp_path, capsys, monkeypatch):
    def fail(self):
        raise checkpoint.SaveError("cannot write x: disk full")

    monkeypatch.setattr(Counting, "save", fail)
    assert job_in(tmp_path).complete() == 1
    out = capsys.readouterr().out
    assert out.endswith(f"disk full\nno checkpoint yet, start over with:\n  purerl train --resume {tmp_path}/job\n")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('Traceback (most recent call last):\n  File "x.py", line 1, in f\nOSError: a', "OSError: a (x.py:1)"),
        ("RESOURCE_EXHAUSTED: Out of memory\nmore", "RESOURCE_EXHAUSTED: Out of memory"),
    ],
)  # fmt: skip
def test_a_computation_that_fails_is_told_in_a_line(said, told, tmp_path, capsys):
    def fail(job):
        raise jax.errors.JaxRuntimeError(said)

    assert job_in(tmp_path, fail).complete() == 1
    assert f"\nthe computation failed: {told}\nno checkpoint yet" in capsys.readouterr().out


@pytest.mark.long
def test_results_that_cannot_be_written_are_told(tmp_path, capsys, monkeypatch):
    def fail(self):
        raise OSError(30, "Read-only file system", "summary.json")

    monkeypatch.setattr(Counting, "finish", fail)
    assert job_in(tmp_path).complete() == 1
    assert "cannot write summary.json: Read-only file system\nno checkpoint yet" in capsys.readouterr().out


SMALL = ("--num-envs", "2", "--rollout-length", "16", "--hidden-sizes", "64,64")


@pytest.mark.long
def test_a_limit_on_the_size_of_files_in_a_real_process(tmp_path):
    """What the operating system refuses reaches the user as lines, through Orbax and TensorStore as well."""
    folder, ended = tmp_path / "run", []
    words = ("train", "a2c", "CartPole-v1", *SMALL, "--total-timesteps", "320", "--checkpoint-interval", "0")
    for limit, command in (
        ("8", [*words, "--no-cache", "--plain", "--out", str(folder)]),
        ("unlimited", ["train", "--resume", str(folder), "--plain"]),
    ):
        limited = ["bash", "-c", f'ulimit -f {limit} && exec "$@"', "_", sys.executable, "-m", "purerl", *command]
        done = subprocess.run(limited, capture_output=True, text=True, env=own_devices(), timeout=250)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        ended.append((done.returncode, done.stdout))
    (code, out), (again, more) = ended
    assert code == 1 and "checkpoints/000000010: File too large\nno checkpoint yet, start over with:" in out
    assert out.count("the next one is tried at the next interval") >= 1
    assert again == 0 and "done: final return" in more, more


def test_a_resumed_job_counts_the_seconds_of_earlier_processes():
    job = Counting(None)
    job.take_metadata({"wall_seconds": 1000.0})
    job.compiled(lambda: None)
    assert 1000.0 <= job.wall_seconds() < 1100.0
