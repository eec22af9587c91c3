"""Disks that are full, read-only or gone, and too few descriptors or too little memory."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.faults import runner
from benchmarks.faults.kills import PROGRAMS, RUN
from benchmarks.faults.runner import Running
from benchmarks.faults.tally import Case, NotHere, References, Verdict, campaign, differences, ended
from benchmarks.groups import Request
from benchmarks.tables import Table

PROGRAM = "train"


def measure(request: Request) -> list[Table]:
    """Make each fault once, or until the time limit."""
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
        return campaign("disk and memory", cases(References(Path(folder))), request.seconds(0.1))


def cases(references: References) -> Iterator[Case]:
    """Yield each fault once."""
    for size in (512, 1024, 2048, 4096, 8192, 16384, 32768):
        yield Case(
            kind="limit on the size of files",
            name=f"{size} bytes",
            attempt=partial(_limited, references, {"RLIMIT_FSIZE": size}),
        )
    for count in (16, 20, 24, 28, 32, 48):
        yield Case(
            kind="few descriptors", name=f"{count}", attempt=partial(_limited, references, {"RLIMIT_NOFILE": count})
        )
    for size in (8, 32, 64, 128, 256):
        yield Case(kind="full disk", name=f"{size} KB", attempt=partial(_full, references, size))
    for name, harm in MIDWAY.items():
        yield Case(kind="midway", name=name, attempt=partial(_midway, references, harm))
    for name, words in MEMORY.items():
        yield Case(kind="memory", name=name, attempt=partial(_memory, words))
    for name, prepare in CACHES.items():
        yield Case(kind="cache of programs", name=name, attempt=partial(_cached, references, prepare))


def _words() -> list[str]:
    return PROGRAMS[PROGRAM][0].split()


def _goes_on(references: References, folder: Path, done: runner.Done) -> Verdict:
    """Resume without the fault, and compare."""
    verdict = ended(done)._replace(command=f"{done.command}\n{done.text[-1200:]}")
    if verdict.failed:
        return verdict
    if done.code != 0 and "error" not in done.text and "cannot" not in done.text:
        return verdict._replace(other=f"no cause is told: {done.last_line}")
    reference, _ = references(PROGRAM, _words())
    resumed = (folder / "config.toml").exists()
    words = (
        ["train", "--resume", str(folder), "--plain", "--no-cache"] if resumed else [*_words(), "--out", str(folder)]
    )
    again = runner.run(*words)
    lost = differences(reference, folder) if again.code == 0 else f"it does not go on: {again.last_line}"
    return Verdict(lost=lost, traceback=again.traceback, command=f"{done.command}; {again.command}")


def _limited(references: References, limits: dict[str, int], work: Path) -> Verdict:
    folder = work / "job"
    done = runner.run(*_words(), "--out", str(folder), limits=limits)
    return _goes_on(references, folder, done)


@contextlib.contextmanager
def _mounted(folder: Path, kilobytes: int) -> Iterator[None]:
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(folder)], check=False)
    if made.returncode:
        raise NotHere("a small disk cannot be mounted")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def _full(references: References, kilobytes: int, work: Path) -> Verdict:
    with _mounted(work / "disk", kilobytes):
        folder = work / "disk" / "job"
        done = runner.run(*_words(), "--out", str(folder))
        subprocess.run(["mount", "-o", "remount,size=64m", str(work / "disk")], check=True)
        return _goes_on(references, folder, done)


def _chattr(flag: str, path: Path) -> None:
    if shutil.which("chattr") is None or subprocess.run(["chattr", flag, str(path)], check=False).returncode:
        raise NotHere("this file system has no immutable files")


def _move(folder: Path, work: Path) -> Callable[[], object]:
    folder.rename(work / "elsewhere")
    return lambda: (shutil.rmtree(folder, ignore_errors=True), (work / "elsewhere").rename(folder))


def _move_checkpoints(folder: Path, work: Path) -> Callable[[], object]:
    (folder / "checkpoints").rename(work / "elsewhere")

    def back() -> None:
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        (work / "elsewhere").rename(folder / "checkpoints")

    return back


def _link_checkpoints(folder: Path, work: Path) -> Callable[[], object]:
    (folder / "checkpoints").rename(work / "elsewhere")
    (folder / "checkpoints").symlink_to(work / "elsewhere")

    def back() -> None:
        (folder / "checkpoints").unlink()
        (work / "elsewhere").rename(folder / "checkpoints")

    return back


def _immutable(name: str) -> Callable[[Path, Path], Callable[[], object]]:
    def harm(folder: Path, work: Path) -> Callable[[], object]:
        _chattr("+i", folder / name)
        return lambda: _chattr("-i", folder / name)

    return harm


def _take_table(folder: Path, work: Path) -> Callable[[], object]:
    (folder / "metrics.csv").rename(work / "metrics.csv")
    return lambda: os.replace(work / "metrics.csv", folder / "metrics.csv")


MIDWAY = {  # name -> (folder, work) -> what makes it good again
    "the folder is moved away": _move,
    "checkpoints are moved away": _move_checkpoints,
    "checkpoints become a link": _link_checkpoints,
    "the folder is read-only": _immutable("."),
    "checkpoints are read-only": _immutable("checkpoints"),
    "the table is moved away": _take_table,
}


def _midway(references: References, harm: Callable[[Path, Path], Callable[[], object]], work: Path) -> Verdict:
    folder = work / "job"
    job, last = Running([*_words(), "--out", str(folder)]), time.monotonic() + runner.TIMEOUT
    while job.alive() and not any(folder.glob("checkpoints/*[1-9]")) and time.monotonic() < last:
        time.sleep(0.002)
    job.signal(signal.SIGSTOP)
    try:
        back = harm(folder, work)
    finally:
        job.signal(signal.SIGCONT)
    done = job.wait()
    back()
    return _goes_on(references, folder, done)


BIG = RUN.replace("a2c", "dqn").replace("--rollout-length 4 ", "")
MEMORY = {
    "a replay of 1e12 steps": f"train {BIG} --replay-capacity 1e12",
    "a replay of 1e10 steps": f"train {BIG} --replay-capacity 1e10",
    "1e10 environments": "train a2c Catch --num-envs 1e10 --plain --no-cache --total-timesteps 1e12",
    "1e8 seeds": "train a2c Catch --num-envs 64 --seeds 100000000 --plain --no-cache --total-timesteps 1e6",
    "layers of 1e6": "train a2c Catch --hidden-sizes 1000000,1000000 --plain --no-cache --total-timesteps 1e4",
}


def _memory(text: str, work: Path) -> Verdict:
    done = runner.run(*text.split(), "--out", str(work / "job"))
    verdict = ended(done, (1, 2))
    told = any(word in done.text for word in ("memory", " MB", " GB", "at most"))
    return verdict._replace(other=verdict.other or ("" if told else f"no cause is told: {done.last_line}"))


def _no_cache(work: Path) -> None:
    (work / "cache").write_text("a file")


def _damaged_cache(work: Path) -> None:
    runner.run(*_cacheable(), "--out", str(work / "first"), env={"JAX_COMPILATION_CACHE_DIR": str(work / "cache")})
    for i, path in enumerate(sorted(path for path in (work / "cache").iterdir() if path.is_file())):
        data = path.read_bytes()
        path.write_bytes((data[: len(data) // 2], bytes(len(data)), b"", data[::-1])[i % 4])


def _cacheable() -> list[str]:
    return [word for word in _words() if word != "--no-cache"]


CACHES = {"a file in its place": _no_cache, "every file of it damaged": _damaged_cache}


def _cached(references: References, prepare: Callable[[Path], None], work: Path) -> Verdict:
    prepare(work)
    env = {"JAX_COMPILATION_CACHE_DIR": str(work / "cache")}
    done = runner.run(*_cacheable(), "--out", str(work / "job"), env=env)
    reference, _ = references(PROGRAM, _words())
    lost = differences(reference, work / "job") if done.code == 0 else f"it does not train: {done.last_line}"
    return ended(done)._replace(lost=lost, command=f"{done.command}\n{done.text[-800:]}")
