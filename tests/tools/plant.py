"""Plants faults, one at a time, and runs the tests of that file: do they notice?

    python tests/tools/plant.py --jobs 2                         all of `planted_faults.FAULTS`
    python tests/tools/plant.py --only functional replay/        those whose path holds a word
    python tests/tools/plant.py --half both                      with the long tests, too
    python tests/tools/plant.py --nothing                        plants nothing: all tests must pass

Prints a line per fault, the faults that survived, and a table by package. Exits with 1 if one survived.
"""

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from planted_faults import FAULTS

ROOT = Path(__file__).resolve().parents[2]
MARKS = {"default": "not (long or suites or publish or slow)", "both": "not slow"}
LEFT_OUT = (".git", ".venv", ".cache", "__pycache__", "build", "dist", "results", "runs")
PINNED = {  # the tests of pinned numbers, which what lies in these folders reaches
    "tests/algos/test_updates.py": ("algos", "functional", "loop", "networks", "optim", "planning", "replay"),
    "tests/envs/test_steps.py": ("envs",),
}
CALLED = {"curiosity": "rnd or icm", "policy_gradient": "reinforce or ppo", "value_decomposition": "vdn or qmix"}
LONGEST = 1200  # seconds of a run of tests; a fault that makes a loop endless is noticed, too


class Row(NamedTuple):
    """A fault and the test files that must notice it."""

    path: str
    right: str
    wrong: str
    tests: tuple[str, ...]

    @property
    def room(self) -> str:
        """The folder of the file, or its name where it stands alone."""
        inside = Path(self.path.removeprefix("purerl/"))
        return str(inside.with_suffix("") if len(inside.parts) == 1 else inside.parent)


def mirrored(path: str) -> list[str]:
    """Return the test file of a file's name; all tests of the mirrored folder if there is none of that name."""
    inside = Path("tests") / path.removeprefix("purerl/")
    named = inside.with_name(f"test_{inside.name}")
    found = [ROOT / named] if (ROOT / named).exists() else sorted((ROOT / inside.parent).glob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in found]


def pinned(path: str) -> list[str]:
    """Return the tests of pinned numbers that run a file: they come last, as they take longest."""
    return [file for file, folders in PINNED.items() if path.removeprefix("purerl/").split("/")[0] in folders]


def all_rows() -> list[Row]:
    """Return the faults with their test files, except for those of pinned numbers."""
    return [
        Row(path=path, right=right, wrong=wrong, tests=tuple(dict.fromkeys([*mirrored(path), *more])))
        for path, faults in FAULTS.items()
        for right, wrong, *more in faults
    ]


def outcome_of(copy: Path, row: Row, half: str) -> str:
    """Run a fault's tests in a copy of the project; return "killed" if one failed, else why not."""
    outcome = run(copy, row.tests, half)
    if outcome == "killed" or not (last := pinned(row.path)):
        return outcome
    stem = Path(row.path).stem
    name = CALLED.get(stem, " and ".join(stem.split("_")))
    pinned_outcome = run(copy, last, half, "-k", name) if row.path.startswith(("algos/", "envs/")) else "NO TESTS"
    pinned_outcome = run(copy, last, half) if pinned_outcome == "NO TESTS" else pinned_outcome
    return pinned_outcome if outcome in ("NO TESTS", "SURVIVED") else outcome


def run(copy: Path, tests: Sequence[str], half: str, *more_arguments: str) -> str:
    """Run test files in a copy of the project; return what `outcome_of` does."""
    if not tests:  # pytest without a file runs all
        return "NO TESTS"
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "tests"))
    more = {
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": str(copy),
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=no"]
    try:
        done = subprocess.run(
            [*command, "-m", MARKS[half], *more_arguments, *tests],
            cwd=copy,
            env=os.environ | more,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired:
        return "killed"
    failed = done.returncode == 1 or (done.returncode == 2 and re.search(r"\berror\b", done.stdout))
    others = {0: "SURVIVED", 5: "NO TESTS"}
    return "killed" if failed else others.get(done.returncode, f"pytest exits with {done.returncode}")


def plant(row: Row, copies: "queue.Queue[Path]", half: str) -> tuple[str, float]:
    """Plant a fault in a free copy; return (what became of it, seconds)."""
    copy, began = copies.get(), time.monotonic()
    file = (copy / row.path).resolve()
    text = file.read_text(encoding="utf-8")
    try:
        if row.right != row.wrong and text.count(row.right) != 1:
            return f"stands there {text.count(row.right)} times", 0.0
        file.write_text(text.replace(row.right, row.wrong), encoding="utf-8")
        return outcome_of(copy, row, half), time.monotonic() - began
    finally:
        file.write_text(text, encoding="utf-8")
        copies.put(copy)


def main() -> int:
    """Plant the chosen faults; return 1 if one survived or does not fit its file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="copies of the project in which tests run side by side")
    parser.add_argument("--half", choices=tuple(MARKS), default="default", help="which tests must notice")
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD", help="faults whose path holds a word")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one in N of them")
    parser.add_argument("--nothing", action="store_true", help="plant nothing: no test may fail")
    args = parser.parse_args()
    rows = [row for row in all_rows() if any(word in row.path for word in args.only)][:: args.every]
    if args.nothing:
        rows = list({row.tests: row._replace(right="", wrong="") for row in rows}.values())
    outcomes, left = Counter(), []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        copies: queue.Queue[Path] = queue.Queue()
        for job in range(args.jobs):
            ignored = shutil.ignore_patterns(*LEFT_OUT)
            copies.put(Path(shutil.copytree(ROOT, Path(folder) / str(job), symlinks=True, ignore=ignored)))
        waiting = {pool.submit(plant, row, copies, args.half): row for row in rows}
        for number, done in enumerate(as_completed(waiting), 1):
            row, (outcome, seconds) = waiting[done], done.result()
            if args.nothing:
                outcome = {"killed": "FAILED", "SURVIVED": "passed"}.get(outcome, outcome)
                row = row._replace(wrong=" ".join(row.tests))
            print(f"{number:3}/{len(rows)}  {outcome:8}  {seconds:5.1f} s  {row.path}: {row.wrong}", flush=True)
            outcomes[row.room, outcome == "killed"] += 1
            if outcome != "killed":
                left.append(f"{outcome}: {row.path}: {row.right}  ->  {row.wrong}")
    if args.nothing:
        not_passed = sum(not line.startswith("passed") for line in left)
        print(f"{not_passed} of {len(rows)} sets of tests do not pass without a fault")
        return int(not_passed > 0)
    print("\n".join(["", *sorted(left), "", f"{'room':24}{'planted':>8}{'killed':>8}"]))
    for room in [*sorted({row.room for row in rows}), ""]:
        killed, survived = (
            sum(n for (at, of), n in outcomes.items() if room in ("", at) and of is wanted) for wanted in (True, False)
        )
        print(f"{room or 'all':24}{killed + survived:8}{killed:8}")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
