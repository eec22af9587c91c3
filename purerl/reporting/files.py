"""Files that are written completely or not at all, never through a link, and tables as CSV."""

import contextlib
import csv
import io
import os
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from purerl.devices import distributed
from purerl.errors import InputError
from purerl.settings.values import to_text

PART = re.compile(r"\..+\.[0-9a-f]{16}\.part")  # the name of a file that is not complete yet


def flags_of(system: object) -> int:
    """Return the flags to open a file with, as far as the system has them: no links, no newline translation.

    Without O_BINARY, Windows would write two bytes for each byte that is a line end.
    """
    return sum(getattr(system, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))


AS_IT_IS = flags_of(os)


def write_whole(path: Path, content: str | bytes | Callable[[IO[bytes]], Any]) -> None:
    """Write a file that appears under its name only when it is complete; with several processes, only the first writes.

    It is written under a name that nobody can guess and prepare a link at. A link at `path` is replaced, not followed.

    Args:
      path: the path of the file.
      content: its text or bytes, or a function that writes into the open file it is given.

    Raises:
      InputError: if there is a folder or a device at `path`.
    """
    if not distributed.is_first():
        return
    if path.exists() and not path.is_file():
        raise InputError(f"cannot write {path}: it is not a regular file")
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | AS_IT_IS, 0o666), "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError) and error.errno:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def check_named(path: Path, what: str, endings: Iterable[str]) -> None:
    """Raise an `InputError` if an output file has an unsupported extension or its folder does not exist."""
    if path.suffix.lower() not in endings:
        raise InputError(f"{path} ends in '{path.suffix}'; {what} must end in {', '.join(endings)}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}")


def write_named(path: Path, content: str | bytes | Callable[[IO[bytes]], Any]) -> None:
    """Write a file that the user named; see `write_whole`."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def append(path: Path) -> IO[bytes]:
    """Open a file to append bytes, unbuffered and not through a link; create it if necessary.

    Raises:
      InputError: if there is a link, a folder or a device at `path`.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError(f"cannot write {path}: it is not a regular file")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | AS_IT_IS, 0o666)
    return open(handle, "ab", buffering=0)


def short_names(folders: Sequence[Path]) -> list[str]:
    """Return a name for each folder in pictures and tables: its own, or its complete path if names are equal."""
    own = [folder.name for folder in folders]
    return own if len(set(own)) == len(own) else [str(folder) for folder in folders]


def own_folder(path: Path) -> Path:
    """Return a folder inside a job's own folder, created if necessary.

    Raises:
      InputError: if it is a link: what it names may be anything.
    """
    if path.is_symlink():
        raise InputError(f"{path} is a link; a job needs a real folder: put the folder itself there")
    path.mkdir(exist_ok=True)
    return path


def remove_parts(folder: Path) -> None:
    """Remove the incomplete files that a killed `write_whole` left in a folder."""
    for path in folder.iterdir():
        if PART.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def csv_text(rows: Sequence[dict[str, object]], empty: str = "") -> str:
    """Return rows as the text of a CSV file with the columns of the first row, or `empty` without rows."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]) if rows else [empty], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: to_text(value) for name, value in row.items()} for row in rows)
    return file.getvalue()
