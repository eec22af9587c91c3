"""Locales, users, terminals, paths and limits that are not the usual ones, each with a fresh interpreter."""

import contextlib
import errno
import os
import pty
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.faults.kills import RUN
from benchmarks.faults.runner import HUNG, TIMEOUT, Done
from benchmarks.faults.tally import Case, NotHere, Verdict, campaign, ended
from benchmarks.groups import Request
from benchmarks.tables import Table

WORDS = [word for word in f"train {RUN} --total-timesteps 64".split() if word != "--plain"]
USER = 12345  # without a name and a home


class Place(NamedTuple):
    """What is unusual."""

    env: Mapping[str, str | None] = {}
    out: str | bytes = "job"  # in the current folder
    plain: bool = True
    shell: str = 'exec "$@"'  # what starts it
    terminal: bool = False
    user: int | None = None
    prepare: Callable[[Path], object] = lambda work: None
    codes: tuple[int | str, ...] = (0,)  # others are refusals


def _link(name: str, to: str) -> Callable[[Path], object]:
    return lambda work: (work / name).symlink_to(work / to)


ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
HOMELESS: dict[str, str | None] = {"HOME": None, "XDG_CACHE_HOME": None, "JAX_COMPILATION_CACHE_DIR": None}
PLACES = {
    "the C locale": Place(env={"LC_ALL": "C", "LANG": "C"}),
    "an ascii terminal": Place(env=ASCII, plain=False, terminal=True),
    "an ascii terminal and letters in the path": Place(
        env=ASCII | {"PYTHONIOENCODING": "ascii"}, out="Läufe-日本", codes=(0, 2)
    ),
    "a latin-1 terminal and letters in the path": Place(env={"PYTHONIOENCODING": "latin-1"}, out="Läufe-日本"),
    "an unknown locale": Place(env={"LC_ALL": "xx_YY.UTF-9"}),
    "a dumb terminal": Place(env={"TERM": "dumb"}, plain=False, terminal=True),
    "a terminal of no name": Place(env={"TERM": None}, plain=False, terminal=True),
    "a terminal of 10 columns": Place(env={"COLUMNS": "10", "LINES": "3"}, plain=False, terminal=True),
    "a terminal without color": Place(env={"NO_COLOR": "1"}, plain=False, terminal=True),
    "no home": Place(env=HOMELESS),
    "a home that is not there": Place(env=HOMELESS | {"HOME": "/nonexistent"}),
    "a home that is a file": Place(env=HOMELESS | {"HOME": "/etc/passwd"}),
    "a user of no name, no home": Place(env=HOMELESS, user=USER),
    "a user of no name, a home of another": Place(env=HOMELESS | {"HOME": "/root"}, user=USER),
    "the current folder removed": Place(shell='mkdir gone; cd gone; rmdir ../gone; exec "$@"', codes=(0, 1, 2)),
    "a folder that is not writable": Place(user=USER, prepare=lambda work: work.chmod(0o555), codes=(1, 2)),
    "stdout closed": Place(shell='exec "$@" >&-', codes=(0, 1, 2)),
    "stdin closed": Place(shell='exec "$@" <&-'),
    "stderr closed": Place(shell='exec "$@" 2>&-'),
    "stdout full": Place(shell='exec "$@" >/dev/full', codes=(0, 1, 2)),
    "stdout read by nobody": Place(shell='"$@" | head -c 10; exit ${PIPESTATUS[0]}', codes=(0, 1, 2, 141)),
    "a path that is not UTF-8": Place(out=b"l\xe4ufe", codes=(0, 2)),
    "a path with a new line": Place(out="two\nlines"),
    "a path with spaces and quotes": Place(out="a 'b' \"c\" $d"),
    "a path of 300 letters": Place(out="x" * 300, codes=(2,)),
    "a path of 5000 letters": Place(out="x/" * 2500, codes=(2,)),
    "a path below a file": Place(out="file/job", prepare=lambda work: (work / "file").touch(), codes=(2,)),
    "a path that is a file": Place(out="file", prepare=lambda work: (work / "file").touch(), codes=(2,)),
    "a path that is a link to nothing": Place(out="link", prepare=_link("link", "nothing"), codes=(2,)),
    "a path below a link to itself": Place(out="link/job", prepare=_link("link", "link"), codes=(2,)),
    "a path with a minus": Place(out="-job", codes=(0, 2)),
    "no temporary folder": Place(env={"TMPDIR": "/nonexistent"}),
    "Matplotlib without a folder": Place(env={"MPLCONFIGDIR": "/proc/nothing"}),
    "Matplotlib with a screen that is not there": Place(env={"MPLBACKEND": "TkAgg", "DISPLAY": None}),
    "Matplotlib with a backend of no name": Place(env={"MPLBACKEND": "nonsense"}),
    "a platform that JAX has not": Place(env={"JAX_PLATFORMS": "nonsense"}, codes=(1, 2)),
    "numbers of 64 bits": Place(env={"JAX_ENABLE_X64": "1"}, codes=(0, 2)),
    "Python that leaves out asserts": Place(env={"PYTHONOPTIMIZE": "2"}),
    "Python with hashes of another seed": Place(env={"PYTHONHASHSEED": "77"}),
    "a time zone of no name": Place(env={"TZ": "No/Where"}),
    "a variable of threads that is no number": Place(env={"OMP_NUM_THREADS": "many", "PJRT_NPROC": "many"}),
    "24 descriptors": Place(shell='ulimit -n 24; exec "$@"', codes=(0, 1, 2)),
    "1 GB of addresses": Place(shell='ulimit -v 1000000; exec "$@"', codes=(0, 1, 2)),
    "3 GB of addresses": Place(shell='ulimit -v 3000000; exec "$@"', codes=(0, 1, 2)),
    "a stack of 1 MB": Place(shell='ulimit -s 1024; exec "$@"'),
    "files that nobody may read": Place(shell='umask 777; exec "$@"', codes=(0, 1, 2)),
}


def measure(request: Request) -> list[Table]:
    """Train in each once, or until the time limit."""
    return campaign("surroundings", cases(), request.seconds(0.13))


def cases() -> Iterator[Case]:
    """Yield each surrounding once."""
    for name, place in PLACES.items():
        yield Case(kind="surroundings", name=name, attempt=partial(_attempt, place))


def _attempt(place: Place, work: Path) -> Verdict:
    if place.user is not None and not _may_start_python(place.user):
        raise NotHere("Python lies where another user may not read it")
    work.chmod(0o777)
    place.prepare(work)
    done = _run(place, work)
    verdict = ended(done, place.codes)
    refused = done.code not in (0, 141) and "error" not in done.text and "cannot" not in done.text
    if refused and not verdict.other and "closed" not in place.shell and "full" not in place.shell:
        verdict = verdict._replace(other=f"no cause is told: {done.last_line}")
    whole = isinstance(place.out, bytes) or done.code or (work / place.out / "summary.json").exists()
    if not whole and ">&-" not in place.shell and "rmdir" not in place.shell:
        verdict = verdict._replace(lost="there is no summary")
    return verdict._replace(command=f"{done.command}\n{done.text[-1200:]}")


def _may_start_python(user: int) -> bool:
    try:
        return not subprocess.run([sys.executable, "-c", ""], user=user, group=user, check=False).returncode
    except PermissionError:
        return False


def _run(place: Place, work: Path) -> Done:
    env = {name: value for name, value in (os.environ | dict(place.env)).items() if value is not None}
    words = [sys.executable, "-m", "purerl", *WORDS, *(["--plain"] if place.plain else []), "--out", place.out]
    began, said = time.monotonic(), b""
    master, slave = pty.openpty() if place.terminal else (None, None)
    with tempfile.TemporaryFile() as screen:
        output = screen if slave is None else slave
        process = subprocess.Popen(
            ["bash", "-c", place.shell, "_", *words],
            env=env,
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            user=place.user,
            group=place.user,
            extra_groups=None if place.user is None else [],
            start_new_session=True,
        )
        if master is not None and slave is not None:
            os.close(slave)
            said = _read(master)
        try:
            code: Any = process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            code = HUNG
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
        screen.seek(0)
        said += screen.read()
    changed = [f"{name}={value}" for name, value in place.env.items()]
    text = said.decode(errors="replace")
    command = " ".join([*changed, shlex.join(os.fsdecode(word) for word in words)])
    return Done(code=code, text=text, seconds=time.monotonic() - began, command=command)


def _read(master: int) -> bytes:
    said = b""
    with os.fdopen(master, "rb", buffering=0) as terminal:
        while True:
            try:
                part = terminal.read(4096)
            except OSError as error:  # the other end is closed
                if error.errno != errno.EIO:
                    raise
                return said
            if not part:
                return said
            said += part
