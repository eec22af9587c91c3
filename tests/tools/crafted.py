"""Opens crafted folders and files with every command: no code of them runs, no traceback, little time and memory.

    python tests/tools/crafted.py                 # all cases, some minutes
    python tests/tools/crafted.py --only report   # those whose name holds a word

Commands run in forks of one process, which has imported what they need; what the current folder may hold is tried in
processes of their own. Exits with 1 and prints each case that failed.
"""

import argparse
import contextlib
import importlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import crafted_cases
from crafted_cases import CODE, READ

SECONDS, BYTES = 150, 4 * 10**9  # limits per case; a busy machine is slow


def in_a_fork(words, out):
    """Run a command in a fork; return (exit code, seconds, bytes)."""
    began, pid = time.monotonic(), os.fork()
    if pid == 0:
        os.setsid()
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1), os.dup2(handle, 2)
        from purerl.commands.cli import main

        sys.argv = ["purerl", *words.split()]
        code = 99
        try:
            main()
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 0
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)
    return watched(pid, began)


def watched(pid, began):
    most = 0
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        seconds = time.monotonic() - began
        if done:
            return os.waitstatus_to_exitcode(status), seconds, most
        with contextlib.suppress(OSError, IndexError):  # it has just ended
            most = max(most, int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize())
        if seconds > SECONDS or most > BYTES:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.02)


def wrong(result, text, mark):
    """Return what is wrong with the end of a command; "" if nothing is."""
    code, seconds, most = result
    found = {
        "code ran": mark.exists(),
        "a traceback": "Traceback (most recent call last)" in text,
        f"it took {seconds:.0f} s": seconds > SECONDS,
        f"it took {most / 1e9:.1f} GB": most > BYTES,
        f"it ended with {code}": code not in (0, 1, 2) and seconds <= SECONDS and most <= BYTES,
        "control characters": any(letter in text for letter in ("\x1b[2J", "\x9b", "\u202e")),
        "a script in a page": any("<script" in page.read_text() for page in Path().rglob("*.html")),
        "a private file": "a private key" in text,
    }
    return ", ".join(name for name, is_so in found.items() if is_so)


def beside(root):
    """Yield (name, wrong) of files that lie in the current folder of a process."""
    names = [
        "click.py",
        "numpy.py",
        "orbax.py",
        "jax_plugins/crafted.py",
        "tensorflow.py",
        "sitecustomize.py",
        "typing.py",
    ]
    for words in (READ["evaluate"], READ["evaluate"] + " --trust json", READ["plot"], READ["report"]):
        work, mark = fresh(root)
        for name in names:
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text(CODE.format(mark=str(mark)))
        (work / "matplotlibrc").write_text(
            f"axes.prop_cycle: cycler('color', [open({str(mark)!r}, 'w').close() or 'r'])\n"
        )
        began = time.monotonic()
        code = "import sys; from purerl.commands.cli import main; main()"
        run = subprocess.run(
            [sys.executable, "-P", "-c", code, *words.split()], cwd=work, capture_output=True, text=True
        )
        yield (
            f"beside a run: {words}",
            wrong((run.returncode, time.monotonic() - began, 0), run.stdout + run.stderr, mark),
        )


def fresh(root):
    """Return (a new copy of the folders, the file that crafted code would write)."""
    work = root / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(root / "whole", work, symlinks=True)
    shutil.copytree(work / "run", work / "other")
    (work / "private").write_text("a private key")
    mark = root / "mark"
    mark.unlink(missing_ok=True)
    (work / "crafted.py").write_text(CODE.format(mark=str(mark)))
    return work, mark


def main():
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--whole", type=Path, help="a folder that holds what the commands of MAKE make")
    parser.add_argument("--minutes", type=float, default=600.0, help="end after so many")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many of the first, which were tried before")
    for name in ("newest", "inputs"):
        parser.add_argument(
            f"--{name}",
            dest="of",
            action="store_const",
            const=f"crafted_{name}",
            default="crafted_cases",
            help=f"the cases of crafted_{name}.py instead of those of crafted_cases.py",
        )
    given = parser.parse_args()
    until = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory(prefix="crafted-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        (root / "whole").mkdir()
        if given.whole is not None:
            shutil.copytree(given.whole, root / "whole", dirs_exist_ok=True)
        of = importlib.import_module(given.of)
        make = crafted_cases.MAKE | of.MAKE
        for words in make.values() if given.whole is None else ():
            code = "from purerl.commands.cli import main; main()"
            subprocess.run(
                [sys.executable, "-c", code, *words.split()], cwd=root / "whole", check=True, capture_output=True
            )
        import purerl.commands.cli
        import purerl.evolution.evolve
        import purerl.reporting.report
        import purerl.run.opening
        import purerl.sweeps.sweep  # noqa: F401

        os.chdir(root / "whole")
        found = [case for case in of.cases() if given.only in case[0]]
        random.Random(0).shuffle(found)  # so that every part contains all kinds
        found = found[given.skip :]
        count, failed = 0, []
        for name, craft, words in found:
            if time.monotonic() > until:
                break
            work, mark = fresh(root)
            os.chdir(work)
            craft()
            result = in_a_fork(words, root / "out")
            text = (root / "out").read_text(errors="replace")
            count += 1
            if problem := wrong(result, text, mark):
                failed.append(name)
                print(f"{name}: {problem}\n    purerl {words}\n    {text[-700:]!r}", flush=True)
        os.chdir(root)
        for name, problem in beside(root) if given.only in "beside a run" and time.monotonic() < until else ():
            count += 1
            if problem:
                failed.append(name)
                print(f"{name}: {problem}", flush=True)
        print(f"{count} of {len(found) + 4} cases, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
