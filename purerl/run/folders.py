"""The folders of long jobs: made, compared with the job that resumes there, and locked."""

import contextlib
from pathlib import Path
from typing import Any

from purerl.devices import distributed
from purerl.errors import InputError
from purerl.settings.toml import JobKind


def enter_folder(
    kind: JobKind, out: Path | None, words: tuple[str, ...], text: str, resume: bool = False
) -> tuple[Path, bool]:
    """Return (a job's folder with its settings in it, whether to continue the job that is there).

    Args:
      kind: of the job.
      out: the folder; None: runs/<words>-<n>.
      words: of the name.
      text: of the file of settings.
      resume: continue the job in `out` if there is one; its settings must be the same.

    Raises:
      InputError: if the folder exists, cannot be written or holds another job.
    """

    def enter() -> str:
        if resume and out is not None and out.exists():
            check_same(out / kind.file, text, kind.noun)
            return f"+{out}"
        folder = new_folder(out, *words)
        (folder / kind.file).write_text(text, encoding="utf-8")
        return f"-{folder}"

    found = distributed.first_does(enter)
    return Path(found[1:]), found[0] == "+"


def new_folder(out: Path | None, *words: str) -> Path:
    """Make a folder, `runs/<words>-<n>` such as `runs/ppo-CartPole-v1-1` if none is named, and return it.

    Raises:
      InputError: if it exists or cannot be written.
    """
    name, n = "-".join(words).replace("/", "-").replace(":", "-"), 1
    while True:
        folder = out or Path("runs") / f"{name}-{n}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            if out is not None:
                raise InputError(f"{out} exists; name another --out, or go on there with --resume {out}") from None
            n += 1
        except OSError as error:
            raise InputError(f"cannot write {folder}: {error.strerror}") from None


def check_same(file: Path, text: str, noun: str) -> None:
    """Check that a folder's file of settings has the expected text, whatever devices the job ran on.

    Args:
      file: such as sweep.toml.
      text: the expected one.
      noun: "sweep" or "evolution".

    Raises:
      InputError: if there is no such file, or its text differs.
    """
    if not file.is_file():
        raise InputError(f"there is no {noun} in {file.parent}: it has no {file.name}")
    texts = (file.read_text(encoding="utf-8"), text)
    written, wanted = ([line for line in text.splitlines() if not line.startswith("devices = ")] for text in texts)
    for here, there in zip(wanted, written, strict=False):
        if here != there:
            raise InputError(f"{file.parent} holds another {noun}: it has {there!r} where this one has {here!r}")
    if len(written) != len(wanted):
        raise InputError(f"{file.parent} holds another {noun}: it searches other fields")


def lock(folder: Path, kind: JobKind) -> Any:
    """Lock a folder, so that no second process writes there; the lock ends with the process.

    Raises:
      InputError: if another process has locked it.
    """
    with contextlib.suppress(ImportError):
        import fcntl

        file = (folder / kind.file).open("rb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise InputError(f"{folder} is in use: another process is training there") from None
        return file
    return None
