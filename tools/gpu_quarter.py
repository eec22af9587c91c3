"""A quarter of an hour on a GPU: stages of the benchmark group `gpu`, the most important first, until time runs out.

    python tools/gpu_quarter.py pack --checkouts purejaxrl=DIR,purejaxql=DIR,craftax=DIR
    PYTHONPATH=. python tools/gpu_quarter.py run --minutes 12 --out results
    python tools/gpu_quarter.py run --dry

`pack` fills .wheels/ with everything that a machine with JAX, Flax, PyTorch and pytest on Python 3.12 lacks, including
checkouts of other frameworks. It prints the command line for that machine, which then needs no network. `run` measures
one stage after the other, each in a separate process with its own time limit. A stage writes its figures into the
machine's report when it ends. It is skipped if the report already has its figures for this code, so another run does
the next stages. Unused time goes to the next stages. `--dry` solves tiny problems on any device, to try all of it.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from exit_code import exit_code

from purerl.errors import InputError, unknown

ROOT = Path(__file__).parents[1]
WHEELS = ROOT / ".wheels"
SITE = ROOT / "build" / "gpu_quarter"
LOG = "gpu-quarter.log"
MINUTES = 12.0
MOST_BYTES = 64 << 20  # limit for .wheels/ and the repository's files together
PLATFORMS = [f"manylinux{kind}_x86_64" for kind in ("_2_28", "_2_27", "_2_24", "_2_17", "2014", "_2_5", "1")]
PACKAGES = {  # for all, and for one opponent; what they need in turn is there or is listed
    "": (
        *("brax>=0.14,<0.15", "craftax>=1.6", "decorator", "distrax", "dm-tree", "farama-notifications", "flashbax"),
        *("gast", "gymnasium>=1.3,<1.4", "gymnax>=1", "jaxopt", "mctx", "ml-collections"),
        *("mujoco==4.0.0", "mujoco-core==4.0.0", "mujoco-mjx", "tensorboardX", "tfp-nightly", "trimesh"),
    ),
    "purejaxql": ("gymnax<1", "setuptools<81"),
}
PROBE = """
import json, jax
from benchmarks import report
print(json.dumps([report.file_name(report.machine()), report.code(), jax.default_backend()]))
"""
PAGE = """
import sys
from pathlib import Path
from benchmarks import report
print(report.page(report.read(Path(sys.argv[1])), sys.argv[2:]))
"""


class Stage(NamedTuple):
    """A part of the group `gpu`."""

    name: str
    seconds: int  # it may take, at least
    against: tuple[str, ...] = ()  # other frameworks, where they are there
    runs: int = 2


STAGES = (  # the most important first; together they take `MINUTES`
    Stage(name="seeds-2048", seconds=110, against=("purejaxrl",)),
    Stage(name="seeds-10000", seconds=90, against=("purejaxrl",)),
    Stage(name="compile", seconds=50),
    Stage(name="ppo-wide", seconds=40, against=("purejaxrl",)),
    Stage(name="fused", seconds=30),
    Stage(name="ppo", seconds=30, against=("purejaxrl",)),
    Stage(name="breakout", seconds=45, against=("purejaxrl",)),
    Stage(name="dqn", seconds=30, against=("purejaxrl",)),
    Stage(name="pqn", seconds=30, against=("purejaxql",)),
    Stage(name="tag-1000", seconds=35),
    Stage(name="grid-5", seconds=20),
    Stage(name="grid-100", seconds=20),
    Stage(name="tag-105", seconds=30),
    Stage(name="brax", seconds=60, against=("brax",), runs=1),
    Stage(name="craftax-classic", seconds=40, against=("craftax",), runs=1),
    Stage(name="craftax", seconds=30, runs=1),
    Stage(name="tests", seconds=30, runs=1),
)


class Place(NamedTuple):
    """Where a run measures."""

    report: Path  # report of the machine
    code: str  # a hash of the sources
    dry: bool
    environment: dict[str, str]  # variables of the processes

    def done(self) -> set[str]:
        """Return the stages that the report has for this code."""
        groups = json.loads(self.report.read_text())["groups"] if self.report.exists() else {}
        wanted = {name: group for name, group in groups.items() if name.startswith("gpu.")}
        here = lambda group: group.get("code") == self.code and group["settings"].get("tiny", False) == self.dry
        return {name.removeprefix("gpu.") for name, group in wanted.items() if here(group)}


def pack(checkouts: dict[str, Path]) -> int:
    """Fill .wheels/, and print the command line for the machine.

    Raises:
      InputError: if it becomes too large, or a checkout is not there.
    """
    for name, folder in checkouts.items():
        if not folder.is_dir():
            raise InputError(f"--checkouts {name}={folder}: that is not a folder")
    for folder in (WHEELS, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    for name, packages in PACKAGES.items():
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--python-version=3.12", "--implementation=cp"]
        options += [f"--platform={platform}" for platform in PLATFORMS]
        line = [*pip(), "download", *options, "--dest", str(WHEELS / name), *packages]
        subprocess.run(line, check=True)
    for wheel in WHEELS.rglob("*.whl"):
        slim(wheel)
    for name, folder in checkouts.items():
        copy_sources(folder, WHEELS / "checkouts" / name)
    tracked = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    ours = size_of(ROOT / name for name in tracked.split("\0") if name)
    size = size_of(WHEELS.rglob("*"))
    sizes = f".wheels/ has {size / 2**20:.1f} MiB and the repository {ours / 2**20:.1f} MiB"
    if size + ours > MOST_BYTES:
        raise InputError(f"{sizes}: together they must be at most {MOST_BYTES >> 20} MiB")
    print(f"{sizes}. With .wheels/ in the clone there:\n\n{command_line()}")
    return 0


def command_line() -> str:
    """Return the command line for a machine with a GPU and without a network, run in the clone."""
    return (
        "PYTHONPATH=. python3 -u tools/gpu_quarter.py run --minutes 9 --out ${OUT:-results}\n"
        f"# $OUT has the report and {LOG}: copy the report into results/, then a second run does the next stages"
    )


def size_of(paths: Iterable[Path]) -> int:
    """Return the bytes of the files among some paths."""
    return sum(path.stat().st_size for path in paths if path.is_file() and not path.is_symlink())


def slim(wheel: Path) -> None:
    """Write a wheel again without data for its own tests."""
    old = wheel.rename(wheel.with_suffix(".old"))
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
        for member in source.infolist():
            if "/test_data/" not in member.filename:
                target.writestr(member, source.read(member), zipfile.ZIP_DEFLATED, 9)
    old.unlink()


def copy_sources(source: Path, target: Path) -> None:
    """Copy the Python files of a checkout and its license."""
    for path in sorted(source.rglob("*.py")) + sorted(source.glob("LICENSE*")):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def install(wheels: Path, site: Path) -> dict[str, str]:
    """Install the wheels into folders of their own, and return the environment variables that find them.

    They come before the interpreter's packages. A virtual environment that is made from another one would not see the
    packages of that one.
    """
    for name in PACKAGES:
        found = sorted(map(str, (wheels / name).glob("*.whl")))
        options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--target", str(site / (name or "common"))]
        if found and not (site / (name or "common")).exists():
            subprocess.run([*pip(), "install", *options, *found], check=True)
    paths = [str(site / "common"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONUNBUFFERED": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def pip() -> list[str]:
    """Return the command pip: this Python's, or another one's where uv made this one without it."""
    return [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else ["pip"]


def ask(code: str, environment: dict[str, str], *words: str) -> str:
    """Return what a process prints that runs Python code."""
    line = [sys.executable, "-c", code, *words]
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT).stdout


def find_place(out: Path, dry: bool) -> Place:
    """Return where to measure; figures of an earlier run come from results/.

    Raises:
      InputError: if there is no GPU.
    """
    variables = install(WHEELS, SITE)
    if dry:
        variables |= {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    name, code, backend = json.loads(ask(PROBE, variables).splitlines()[-1])
    if backend != "gpu" and not dry:
        raise InputError(f"JAX finds no GPU here, but {backend}: --dry solves tiny problems on any device")
    out.mkdir(parents=True, exist_ok=True)
    report, earlier = out / name, ROOT / "results" / name
    if not dry and not report.exists() and earlier.exists():
        shutil.copyfile(earlier, report)
    return Place(report=report, code=code, dry=dry, environment=variables)


def run(stages: Iterable[Stage], minutes: float, out: Path, dry: bool) -> int:
    """Measure the stages that the report does not have, as far as the minutes go; return how many did not end well."""
    began = time.monotonic()
    place = find_place(out, dry)
    done = place.done()
    left = [stage for stage in stages if stage.name not in done]
    told = []
    with (out / LOG).open("a") as log:
        for index, stage in enumerate(left):
            remaining = 60.0 * minutes - (time.monotonic() - began)
            limit = limit_of(left[index:], remaining)
            outcome = measure(stage, limit, place, log) if limit else "no time was left"
            told.append((stage, outcome))
            print(f"{time.monotonic() - began:6.0f} s  gpu.{stage.name}: {outcome}", flush=True)
    measured = [f"gpu.{stage.name}" for stage, _ in told if stage.name in place.done()]
    if measured:
        print(ask(PAGE, place.environment, str(place.report), *measured))
    return len(told) - len(measured)


def limit_of(left: list[Stage], remaining: float) -> float | None:
    """Return the limit of the first of the stages that are left, in seconds; None if it is not worth a start.

    The stages divide what is left in proportion to their seconds, but none has less than its own seconds.
    """
    own = left[0].seconds
    limit = min(remaining, own * max(1.0, remaining / sum(stage.seconds for stage in left)))
    return limit if limit >= own / 2 else None


def measure(stage: Stage, limit: float, place: Place, log: Any) -> str:
    """Measure a stage in a process of its own, and return how it ended; whatever it started ends with it."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks", *arguments(stage, place)],
        stdout=log,
        stderr=subprocess.STDOUT,
        env=place.environment,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        with_children(process)
    if code is None:
        return f"stopped at its limit of {limit:.0f} s"
    ended = "measured" if stage.name in place.done() else f"ended with {code}: {last_line(Path(log.name))}"
    return f"{ended}, {time.monotonic() - began:.0f} s of {limit:.0f}"


def arguments(stage: Stage, place: Place) -> list[str]:
    """Return the arguments of `python -m benchmarks`."""
    checkouts = {folder.name: f"{folder.name}={folder}" for folder in (WHEELS / "checkouts").glob("*")}
    against = [checkouts.get(name, name if name == "brax" else "") for name in stage.against]
    words = [f"gpu.{stage.name}", "--out", str(place.report.parent), "--here", str(SITE)]
    words += ["--runs", "1" if place.dry else str(stage.runs)] + (["--tiny"] if place.dry else [])
    return words + (["--against", ",".join(filter(None, against))] if any(against) else [])


def with_children(process: subprocess.Popen) -> None:
    """End a process and those that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_line(path: Path) -> str:
    """Return the end of a file."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "without a word"


def main() -> int:
    """Read the command line, and pack or run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="fill .wheels/ and print the command line for the machine")
    packing.add_argument("--checkouts", default="", metavar="NAME=DIR,...", help="of purejaxrl, purejaxql and craftax")
    running = commands.add_parser("run", help="measure what the report lacks")
    running.add_argument("--minutes", type=float, default=MINUTES, help="for all stages; default %(default)s")
    running.add_argument("--out", type=Path, default=None, help="folder of the report; default results, or build/dry")
    running.add_argument("--only", default="", metavar="STAGE,...", help="these stages; default: all, by worth")
    running.add_argument("--dry", action="store_true", help="solve tiny problems on any device")
    chosen = parser.parse_args()
    if chosen.command == "pack":
        pairs = [text.partition("=") for text in chosen.checkouts.split(",") if text]
        return pack({name: Path(folder) for name, _, folder in pairs})
    names = [name for name in chosen.only.split(",") if name]
    known = {stage.name: stage for stage in STAGES}
    for name in names:
        if name not in known:
            raise unknown("stage", name, known, limit=len(known))
    stages = [known[name] for name in names] or STAGES
    out = chosen.out or ROOT / ("build/dry" if chosen.dry else "results")
    return min(run(stages, chosen.minutes, out.resolve(), chosen.dry), 1)


if __name__ == "__main__":
    sys.exit(exit_code(main, "gpu_quarter.py"))
