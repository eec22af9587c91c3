"""The folders of long jobs: created, compared with the job that resumes in them, and locked."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from purerl.devices import distributed
from purerl.errors import InputError
from purerl.reporting.files import write_whole
from purerl.settings import toml
from purerl.settings.toml import JobKind
from purerl.settings.values import to_text
from purerl.trust import reading


def enter_folder(
    kind: JobKind,
    out: Path | None,
    words: tuple[str, ...],
    text: str,
    resume: bool = False,
    files: Mapping[str, bytes] = MappingProxyType({}),
) -> tuple[Path, bool]:
    """Return (a job's folder with its settings in it, whether to resume the job in it).

    Args:
      kind: the kind of the job.
      out: the folder; None: runs/<words>-<n>.
      words: the words of the name.
      text: the text of the file of settings.
      resume: continue the job in `out` if there is one; its settings must be the same.
      files: {name: content} of further files of a new folder.

    Raises:
      InputError: if the folder exists, cannot be written or holds another job.
    """

    if out is not None:
        reading.path_of(out)  # a name that no folder can have is refused before one is made

    def enter() -> str:
        if resume and out is not None and out.exists():
            check_same(out / kind.file, text, kind.noun)
            for name, content in files.items():
                if reading.content(out / name, reading.TABLE) != content:
                    raise InputError(f"{out} holds another {kind.noun}: its {name} differs")
            return f"+{out}"
        return f"-{new_folder(out, *words, files={**files, kind.file: text})}"

    found = distributed.first_does(enter)
    return Path(found[1:]), found[0] == "+"


def new_folder(out: Path | None, *words: str, files: Mapping[str, str | bytes]) -> Path:
    """Create a folder, named or `runs/<words>-<n>` such as `runs/ppo-CartPole-v1-1`, and return it.

    The folder and its files appear at once, so a crash never leaves a folder without its settings.
    """
    name, n = "-".join(words).replace("/", "-").replace(":", "-"), 1
    while True:
        folder = out or Path("runs") / f"{name}-{n}"
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            if not os.path.lexists(folder):
                _appear(folder, files)
                return folder
        except OSError as error:
            if not os.path.lexists(folder):  # else another process was faster
                raise InputError(f"cannot write {folder}: {error.strerror}") from None
        if out is not None:
            raise toml.taken(out)
        n += 1


def _appear(folder: Path, files: Mapping[str, str | bytes]) -> None:
    made = folder.with_name(f".{secrets.token_hex(8)}.part")
    made.mkdir()
    try:
        for name, content in files.items():
            write_whole(made / name, content)
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def check_same(file: Path, text: str, noun: str) -> None:
    """Check that a folder's settings file has the expected text, except for devices, version and fresh seeds."""
    if not file.is_file():
        raise InputError(f"there is no {noun} in {file.parent}: it has no {file.name}")
    texts = (reading.text(file, reading.SETTINGS), text)
    free = ("devices = ", "version = ", "fresh_seeds = ")
    written, wanted = ([line for line in text.splitlines() if not line.startswith(free)] for text in texts)
    for here, there in zip(wanted, written, strict=False):
        if here != there:
            raise InputError(f"{file.parent} holds another {noun}: it has {there!r} where this one has {here!r}")
    if len(written) != len(wanted):
        raise InputError(f"{file.parent} holds another {noun}: it searches other fields")


SILENT = ("devices", "mesh", "version")  # settings that may differ from those of a checkpoint without a word


def changes(
    file: Path,
    written: object,
    text: str,
    may_change: Callable[[str], bool],
    absent: Mapping[str, object] = MappingProxyType({}),
) -> str:
    """Compare the settings in a job's folder with the settings in its checkpoint.

    Args:
      file: the file of the settings, for messages.
      written: the text that the checkpoint holds.
      text: the text of the job's settings now.
      may_change: whether a setting, by its whole name such as "env.gravity", may differ.
      absent: the values that settings have where a text does not name them.

    Returns:
      A line that names the settings that differ; "" if none does.

    Raises:
      InputError: if one differs that must not, or the checkpoint does not hold its settings.
    """
    if not isinstance(written, str):
        raise InputError(f"the checkpoint in {file.parent} does not contain the settings that it was made with")
    before, now = toml.flat(written), toml.flat(text)
    told = []
    for name in [*now, *(name for name in before if name not in now)]:
        old, new = (to_text(_hashable(table.get(name, absent.get(name, "not there")))) for table in (before, now))
        if old == new or name.rpartition(".")[2] in SILENT:
            continue
        if not may_change(name):
            raise InputError(f"{file}: {name} is {new}, and the checkpoint was made with {old}: set it back to {old}")
        told.append(f"{name} {new} (was {old})")
    return f"changed in {file}: {', '.join(told)}" if told else ""


def _hashable(value: object) -> object:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def lock(folder: Path, kind: JobKind) -> Any:
    """Lock a folder so that no other process writes there; the lock ends with the process."""
    with contextlib.suppress(ImportError):
        import fcntl

        reading.check(folder / kind.file, reading.SETTINGS)
        file = (folder / kind.file).open("rb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise InputError(f"{folder} is in use: another process is training there") from None
        return file
    return None
