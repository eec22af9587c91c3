"""Each fault under each kind of job: failing system calls, kills in them, clocks, signals to groups, two at once.

    python -m benchmarks.faults.matrix --minutes 30 --out faults.jsonl

Each line of the file is a case; cases that it already holds are skipped. At the end, every job is resumed without
faults and must reach the same result as an undisturbed one.
"""

import argparse
import itertools
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.faults import runner, system_calls
from benchmarks.faults.kinds import KINDS
from benchmarks.faults.runner import Running
from benchmarks.faults.system_calls import LASTING, Fault
from benchmarks.faults.tally import Case, Verdict, differences, ended, shapes_differ

CALLS = {  # call -> what may come of it
    "write": ("ENOSPC", "EIO", "EINTR", "EDQUOT", "half"),
    "fsync": ("EIO", "ENOSPC", "EINTR"),
    "rename": ("ENOSPC", "EIO", "EROFS"),
    "mkdir": ("ENOSPC", "EMFILE", "EROFS"),
    "open": ("EMFILE", "EIO", "ENOSPC", "EINTR"),
}
DEATHS = (("write", "torn"), ("write", "kill"), ("fsync", "kill"), ("rename", "kill"), ("mkdir", "kill"))
UNHEARD = ("EINTR", "half")  # errors after which a call is repeated
DAY = 86_400
RESUME = ("--plain", "--no-cache")


class Undisturbed(Exception):
    """A job that fails by itself."""


class Whole(NamedTuple):
    """An undisturbed job."""

    folder: Path
    calls: dict[str, int]  # on its files


class Matrix:
    """The cases, and undisturbed jobs to compare with."""

    def __init__(self, folder: Path):
        """Keep what is made once in a folder, or find it there."""
        self._folder, self._whole = folder, dict[str, Whole]()

    def cases(self, round: int) -> Iterator[Case]:
        """Yield each fault under each kind once; another round has other moments."""
        for fault, attempt in FAULTS.items():
            for kind in KINDS:
                name = f"{fault}, round {round}"
                chance = random.Random(f"{kind} {name}")
                yield Case(kind=kind, name=name, attempt=partial(attempt, self, kind, chance))

    def whole(self, kind: str) -> "Whole":
        """Return an undisturbed job of a kind."""
        work = self._folder / re.sub(r"\W+", "-", kind)
        if kind not in self._whole and (work / "calls.json").exists():
            self._whole[kind] = Whole(folder=work / "job", calls=json.loads((work / "calls.json").read_text()))
        if kind not in self._whole:
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            counted = Fault(call="all", error="none", nth=1, within=str(work / "job"), marks=str(work / "marks"))
            done = runner.run(*begin(kind, work / "job"), first=partial(system_calls.arm, counted), seconds=600)
            if done.code != 0:
                raise Undisturbed(f"the undisturbed job fails: {done.command}\n{done.text}")
            marks = (work / "marks").read_text()
            calls = {call: marks.count(call[0]) for call in CALLS} | {"all": len(marks)}
            (work / "calls.json").write_text(json.dumps(calls))
            self._whole[kind] = Whole(folder=work / "job", calls=calls)
        return self._whole[kind]

    def compared(self, kind: str, folder: Path, story: str) -> str:
        """Return in what a job differs from an undisturbed one, and did not tell in its story; "" if in nothing."""
        if not KINDS[kind].exact:
            return shapes_differ(self.whole(kind).folder, folder)
        return differences(self.whole(kind).folder, folder, best="the best checkpoint is not kept" not in story)

    def ends_well(self, kind: str, folder: Path, verdict: Verdict, tries: int, story: str) -> Verdict:
        """Return the verdict on a disturbed job, which is resumed and compared if it did nothing wrong so far."""
        if verdict.failed:
            return verdict._replace(tries=max(tries, 1), command=story)
        again = runner.run(*begin(kind, folder))
        lost = self.compared(kind, folder, story) if again.code == 0 else f"it does not resume: {again.last_line}"
        story = f"{story}\n--- {again.command}\n{again.text[-1500:]}"
        return Verdict(tries=tries, lost=lost, traceback=again.traceback, command=story)


def begin(kind: str, folder: Path) -> list[str]:
    """Return the command that begins a job, or resumes it if it has a folder."""
    words = KINDS[kind].words.split()
    return [words[0], "--resume", str(folder), *RESUME] if folder.exists() else [*words, "--out", str(folder)]


def size(path: Path) -> int:
    """Return the bytes of a file, 0 without one."""
    return path.stat().st_size if path.exists() else 0


def told(done: runner.Done, codes: tuple[int, ...]) -> Verdict:
    """Return the verdict on a command that was disturbed: how it may end, and that it says why."""
    verdict = ended(done, codes)
    silent = done.code in (1, 2) and not any(word in done.text for word in ("error", "cannot", "damaged"))
    return verdict._replace(other=f"no cause is told: {done.last_line}") if silent and not verdict.failed else verdict


def failing(matrix: Matrix, kind: str, chance: random.Random, work: Path, call: str, error: str, how: str) -> Verdict:
    """Let calls fail in a job, sometimes in a resumed one."""
    folder, story, struck = work / "job", "", 0
    if chance.random() < 0.3:
        struck, story = death(matrix, kind, chance, work)
    fault = within(matrix, kind, chance, work, call=call, error=error, how=how)
    done = runner.run(*begin(kind, folder), first=partial(system_calls.arm, fault))
    story += f"{fault}\n{done.command} -> {done.code}\n{done.text}"
    hits = size(work / "marks")
    verdict = told(done, (0, 1, 2))
    repeated = call != "fsync" or how == "once"  # TensorStore does not repeat it; a save is tried twice
    if error in UNHEARD and repeated and done.code != 0:
        verdict = verdict._replace(other=f"it ends at an interrupted call: {done.last_line}")
    return matrix.ends_well(kind, folder, verdict, struck + (min(hits, 1) if how == "lasting" else hits), story)


def within(
    matrix: Matrix, kind: str, chance: random.Random, work: Path, *, call: str, error: str, how: str = "once"
) -> Fault:
    """Return a fault at a random call of a job, from there on, or at one call in a few."""
    calls = max(1, matrix.whole(kind).calls[call])
    every = chance.randint(2, max(2, min(calls // 8, 40))) if how == "every few" else 1
    nth = chance.randint(1, every if how == "every few" else calls)
    among, marks = 1 if how == "once" else LASTING, str(work / "marks")
    return Fault(call=call, error=error, nth=nth, among=among, every=every, within=str(work / "job"), marks=marks)


def together(*calls: Callable[[], object]) -> None:
    """Call some functions in turn; a partial of it can be pickled."""
    for call in calls:
        call()


def death(
    matrix: Matrix, kind: str, chance: random.Random, work: Path, *first: Callable[[], object], more: str = ""
) -> tuple[int, str]:
    """Kill a job at a random call; return (whether it was killed, what happened).

    Args:
      matrix, kind, chance, work: as for a fault.
      first: called in the process as well.
      more: words of the command that begins it.
    """
    call, error = chance.choice(DEATHS)
    fault = within(matrix, kind, chance, work, call=call, error=error)._replace(marks=str(work / "deaths"))
    words = [*begin(kind, work / "job"), *more.split()]
    done = runner.run(*words, first=partial(together, partial(system_calls.arm, fault), *first))
    return int(done.code == -signal.SIGKILL), f"{fault}\n{done.command} -> {done.code}\n{done.text}\n"


def deaths(matrix: Matrix, kind: str, chance: random.Random, work: Path) -> Verdict:
    """Kill a job three times in a row."""
    struck, story = 0, ""
    for _ in range(3):
        died, more = death(matrix, kind, chance, work)
        struck, story = struck + died, story + more
    return matrix.ends_well(kind, work / "job", Verdict(), struck, story)


def clock(matrix: Matrix, kind: str, chance: random.Random, work: Path) -> Verdict:
    """Let the wall clock jump by days, back and forth, in a job that is killed and in one that resumes it."""
    folder, jump = work / "job", partial(system_calls.jump, chance.choice((DAY, -DAY, 400 * DAY)))
    struck, story = death(matrix, kind, chance, work, jump)
    done = runner.run(*begin(kind, folder), first=jump)
    story = f"{jump}\n{story}{done.command}\n{done.text}"
    return matrix.ends_well(kind, folder, told(done, (0,)), struck + 1, story)


def group(matrix: Matrix, kind: str, chance: random.Random, work: Path) -> Verdict:
    """Send signals to the group of processes of a job, as a terminal and a scheduler do."""
    folder, story, tries, verdict = work / "job", "", 0, Verdict()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        marks = work / number.name
        counted = Fault(call="all", error="none", nth=1, within=str(folder), marks=str(marks))
        job, calls = Running(begin(kind, folder), first=partial(system_calls.arm, counted)), matrix.whole(kind).calls
        moment, last = chance.randint(0, calls["all"]), time.monotonic() + runner.TIMEOUT
        while job.alive() and size(marks) < moment and time.monotonic() < last:
            time.sleep(0.002)
        job.signal_group(number)
        done = job.wait()
        story += f"{number.name} at call {moment}\n{done.command} -> {done.code}\n{done.text}\n"
        verdict, tries = ended(done, (0, 128 + number, -number)), tries + (done.code != 0)
        if verdict.failed:
            break
    return matrix.ends_well(kind, folder, verdict, tries, story)


def two(matrix: Matrix, kind: str, chance: random.Random, work: Path) -> Verdict:
    """Resume a killed job twice at once: one of them is refused."""
    folder = work / "job"
    _, story = death(matrix, kind, chance, work)
    if not folder.exists():
        return matrix.ends_well(kind, folder, Verdict(), 0, story)
    jobs = [Running(begin(kind, folder)) for _ in range(2)]
    done = [job.wait() for job in jobs]
    story += "\n".join(f"{end.command} -> {end.code}\n{end.text}" for end in done)
    wrong = next((verdict for verdict in (told(end, (0, 2)) for end in done) if verdict.failed), Verdict())
    refused = [end for end in done if end.code == 2]
    if len(refused) > 1 or any("in use" not in end.text for end in refused):
        wrong = Verdict(other=f"they ended with {[end.last_line for end in done]}")
    return matrix.ends_well(kind, folder, wrong, 1, story)


def devices(matrix: Matrix, kind: str, chance: random.Random, work: Path) -> Verdict:
    """Begin on two devices, resume on one."""
    folder, words = work / "job", KINDS[kind].words.split()
    if not KINDS[kind].devices:
        return Verdict(tries=0)
    struck, story = death(matrix, kind, chance, work, more="--devices 2")
    if folder.exists():
        done = runner.run(words[0], "--resume", str(folder), "--devices", "1", *RESUME)
        story += f"{done.command}\n{done.text}"
        return matrix.ends_well(kind, folder, told(done, (0,)), struck, story)
    return matrix.ends_well(kind, folder, Verdict(), struck, story)


FAULTS = {
    "mixed errors, every few": partial(failing, call="all", error="mixed", how="every few"),
    "three deaths in system calls": deaths,
    "signals to the group": group,
    "two at once": two,
    "clock": clock,
    "fewer devices": devices,
}
FAULTS |= {
    f"{call} {error}, {how}": partial(failing, call=call, error=error, how=how)
    for call, errors in CALLS.items()
    for error in errors
    for how in ("every few", "once", "lasting")
    if how != "lasting" or error not in UNHEARD
}


def spread(cases: list[Case]) -> list[Case]:
    """Return cases in a random order in which the kinds alternate, so that every part of it contains all kinds."""
    random.Random(0).shuffle(cases)
    turns = dict[str, list[Case]]()
    for case in cases:
        turns.setdefault(case.kind, []).append(case)
    return [case for turn in itertools.zip_longest(*turns.values()) for case in turn if case is not None]


def main() -> None:
    """Try cases until the time limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--out", type=Path, default=Path("faults.jsonl"), help="one line for each case")
    parser.add_argument("--only", default="", help="cases whose 'kind: name' holds this regular expression")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--whole", type=Path, help="a folder for the undisturbed jobs, which later calls find there")
    given = parser.parse_args()
    until = time.monotonic() + 60 * given.minutes
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # programs compile sooner, and run a moment
    os.environ.setdefault(runner.EMPTY_PICTURES, "1")
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    there = {(line["kind"], line["name"]): line for line in map(json.loads, lines)}
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as name:
        system_calls.build(Path(name))
        matrix = Matrix(given.whole or Path(name) / "whole")
        broken = set[str]()  # kinds whose job fails by itself
        found = [case for round in range(given.rounds) for case in matrix.cases(round)]
        found = spread([case for case in found if re.search(given.only, f"{case.kind}: {case.name}")])
        for case in found:
            if (case.kind, case.name) in there or case.kind in broken or time.monotonic() > until:
                continue
            try:
                line = attempted(case, Path(name))
            except Undisturbed as error:
                broken.add(case.kind)
                print(error, flush=True)
                continue
            there[case.kind, case.name] = line
            with given.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
    tries, failed = sum(line["tries"] for line in there.values()), [line for line in there.values() if line["wrong"]]
    print(f"{len(there)} of {len(found)} cases, {tries} faults, {len(failed)} failed")
    sys.exit(bool(failed or broken))


def attempted(case: Case, folder: Path) -> dict[str, Any]:
    """Return what came of a case, as a line of the file."""
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as work:
        began, verdict = time.monotonic(), case.attempt(Path(work))
    wrong = (verdict.lost or verdict.other or "a traceback") if verdict.failed else ""
    if wrong:
        print(f"{case.kind}: {case.name}: {wrong}\n{verdict.command}\n", flush=True)
    line = {"kind": case.kind, "name": case.name, "tries": verdict.tries, "wrong": wrong}
    return line | {"seconds": round(time.monotonic() - began, 1), "story": verdict.command if wrong else ""}


if __name__ == "__main__":
    main()
