"""Each file of the folders of runs, sweeps and evolutions, damaged in six ways and then read."""

import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.faults import runner
from benchmarks.faults.kills import PROGRAMS
from benchmarks.faults.runner import Running
from benchmarks.faults.tally import Case, Verdict, campaign, differences, ended
from benchmarks.groups import Request
from benchmarks.tables import Table

LONG = "40000"  # steps of a job that is stopped on its way
FOLDERS = {  # kind -> (the program, when to stop it: a path within the folder)
    "run": ("train, 2 seeds", "checkpoints/0000000*8"),
    "sweep": ("sweep, halving", "checkpoints/*[1-9]"),
    "evolution": ("evolve", "checkpoints/*2"),
}


def cut(path: Path, chance: random.Random) -> None:
    """Take the end away."""
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(1, max(len(data), 2))])


def emptied(path: Path, chance: random.Random) -> None:
    """Leave nothing in it."""
    path.write_bytes(b"")


def binary(path: Path, chance: random.Random) -> None:
    """Write noise over it."""
    path.write_bytes(chance.randbytes(max(path.stat().st_size, 16)))


def removed(path: Path, chance: random.Random) -> None:
    """Remove it."""
    path.unlink()


def flipped(path: Path, chance: random.Random) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def huge(path: Path, chance: random.Random) -> None:
    """Let zeros follow, 256 MB of them."""
    with path.open("r+b") as file:
        file.truncate(2**28)


def a_folder(path: Path, chance: random.Random) -> None:
    """Put a folder in its place."""
    path.unlink()
    (path / "x").mkdir(parents=True)


DAMAGES = (cut, emptied, binary, removed, flipped, huge, a_folder)


def measure(request: Request) -> list[Table]:
    """Damage folders until the time limit."""
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
        stopped = {kind: _Stopped(Path(folder) / kind, *FOLDERS[kind]) for kind in FOLDERS}
        return campaign("damaged folders", cases(stopped), request.seconds(0.25))


class _Stopped:
    """A job that was stopped midway, and its result if it resumes undisturbed."""

    def __init__(self, folder: Path, program: str, until: str):
        text, _ = PROGRAMS[program]
        self.command, *_ = text.split()
        self.folder, self.end = folder / "stopped", folder / "end"
        folder.mkdir()
        job, last = Running([*text.split(), "--out", str(self.folder)]), time.monotonic() + runner.TIMEOUT
        while job.alive() and not any(self.folder.glob(until)) and time.monotonic() < last:
            time.sleep(0.005)
        job.signal(signal.SIGTERM)
        done = job.wait()
        if done.code != 128 + signal.SIGTERM:
            raise RuntimeError(f"it came to its end, or failed: {done}")
        shutil.copytree(self.folder, self.end)
        whole = self.resume(self.end)
        if whole.code != 0:
            raise RuntimeError(f"the undisturbed job fails: {whole}")

    def resume(self, folder: Path) -> runner.Done:
        """Resume in a folder."""
        return runner.run(self.command, "--resume", str(folder), "--plain", "--no-cache")

    def files(self) -> list[str]:
        """Return the files, including one of each kind from the newest checkpoint."""
        newest = max((self.folder / "checkpoints").glob("[0-9]*[0-9]"))
        checkpoint = {_kind(path): path for path in sorted(newest.rglob("*")) if path.is_file()}
        others = [path for path in self.folder.iterdir() if path.is_file()]
        return [str(path.relative_to(self.folder)) for path in [*sorted(others), *checkpoint.values()]]


def _kind(path: Path) -> str:
    """Return the path of a file of a checkpoint, one name for all data files of a folder."""
    return f"{path.parent}/data" if path.parent.name == "d" else str(path)


def cases(stopped: dict[str, _Stopped], seed: int | None = None) -> Iterator[Case]:
    """Yield each damage of each file once, in a random order."""
    chance = random.Random(seed)
    found = [(kind, file, damage) for kind, job in stopped.items() for file in job.files() for damage in DAMAGES]
    for kind, file, damage in chance.sample(found, len(found)):
        attempt = partial(_attempt, stopped[kind], file, damage, chance)
        yield Case(kind=kind, name=f"{file} {damage.__name__}", attempt=attempt)
    for file, damage in chance.sample([(f, d) for k, f, d in found if k == "run"], len(found) // 4):
        yield Case(
            kind="run, read",
            name=f"{file} {damage.__name__}",
            attempt=partial(_read, stopped["run"], file, damage, chance),
        )


Damage = Callable[[Path, random.Random], None]


def _attempt(job: _Stopped, file: str, damage: Damage, chance: random.Random, work: Path) -> Verdict:
    """Resume: the same end, a line that names what is damaged, or a refusal whose advice leads to the same end."""
    folder = work / "job"
    shutil.copytree(job.folder, folder)
    damage(folder / file, chance)
    done = job.resume(folder)
    verdict = ended(done)
    what = f"{file} {damage.__name__}: {done.command}"
    if verdict.failed:
        return verdict._replace(command=f"{what}\n{done.text[-800:]}")
    if done.code == 0:
        wrong = differences(job.end, folder) if not _told(done.text, file) else ""
        return Verdict(lost=wrong, command=f"{what}\n{done.text[-800:]}")
    if not _told(done.text, file):
        return Verdict(other=f"refused without its name: {done.last_line}", command=what)
    newest = max((folder / "checkpoints").glob("[0-9]*[0-9]"))
    if file.startswith("checkpoints") and "remove that folder" in done.text:
        shutil.rmtree(newest)
        again = job.resume(folder)
        lost = differences(job.end, folder) if again.code == 0 else f"the advice does not help: {again.last_line}"
        return Verdict(lost=lost, traceback=again.traceback, command=what)
    return Verdict()


READERS = {  # the first name of a file -> commands that read it
    "config.toml": (("evaluate", "--episodes", "4"), ("plot",), ("compare",)),
    "metrics.csv": (("plot",), ("compare",)),
    "summary.json": (("plot",), ("compare",)),
    "checkpoints": (("evaluate", "--episodes", "4"),),
}


def _read(job: _Stopped, file: str, damage: Damage, chance: random.Random, work: Path) -> Verdict:
    """Evaluate, plot or compare: a result, or a line that names what is damaged."""
    shutil.copytree(job.end, work / "job")
    shutil.copytree(job.end, work / "other")
    damaged = work / "job" / file
    if not damaged.exists():  # the file belongs to an earlier checkpoint
        damaged = min(max((work / "job" / "checkpoints").glob("[0-9]*[0-9]")).rglob(Path(file).name), default=damaged)
    if not damaged.exists():
        damaged = work / "job" / "metrics.csv"
    damage(damaged, chance)
    first = damaged.relative_to(work / "job").parts[0]
    command, *flags = chance.choice(READERS.get(first, (("plot",),)))
    others = [str(work / "other")] if command == "compare" else []
    done = runner.run(command, str(work / "job"), *others, *flags, cwd=work)
    return ended(done)._replace(command=f"{file} {damage.__name__}: {done.command}\n{done.text[-500:]}")


def _told(text: str, file: str) -> bool:
    """Return whether a line names a file, apart from the last one, which names all."""
    names = (file, file.split("/")[0], "checkpoint " if file.startswith("checkpoints") else file)
    said = [line for line in text.splitlines() if not line.startswith("see ") and "resume" not in line]
    return any(name in line for line in said for name in names)
