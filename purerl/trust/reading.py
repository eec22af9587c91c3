"""Reads files that others may have made: regular files of plausible sizes, with numbers that fit in 64 bits.

Every file of a run, a sweep, an evolution and an agent is opened here. Opening never waits, as it would for a pipe, and
never follows links in a folder; every problem is reported in one line.
"""

import contextlib
import errno
import io
import json
import math
import os
import stat
import tokenize
import tomllib
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerl.errors import InputError, unknown

if TYPE_CHECKING:
    import numpy as np

SETTINGS = 2**20  # bytes of a file of settings, at most
NOTES = 2**24  # the same for a summary, and for the notes next to arrays
TABLE = 2**29  # the same for a table, and for an array in a file
HEADER = 2**16  # the same for the header of an array in an archive
AGENT = 2**36  # the same for an agent's file
DEEPEST = 32  # tables or lists in one another
LONGEST = 19  # digits of an integer: 64 bits
NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
Kinds = dict[str, tuple[tuple[int, ...], Any]]  # {name: (shape, dtype)} of arrays


def check(path: Path, most: int, follow: bool = False) -> None:
    """Raise an `InputError` unless there is a regular file of at most `most` bytes; does not open it.

    Args:
      path: the path of the file.
      most: bytes.
      follow: whether it may be a link, as where the user named it.
    """
    try:
        found = path.stat() if follow else path.lstat()
    except (OSError, ValueError) as error:  # the latter: a zero byte in the name
        raise _unreadable(path, error) from None
    _check(path, found, most)


def _check(path: Path, found: os.stat_result, most: int) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise InputError(f"cannot read {path}: it is a link; put the file itself there")
    if stat.S_ISDIR(found.st_mode):
        raise InputError(f"cannot read {path}: it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"cannot read {path}: it is not a regular file")
    if found.st_size > most:
        raise InputError(f"cannot read {path}: it has {found.st_size:,} bytes; at most {most:,} are read")


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")


def content(path: Path, most: int, follow: bool = False) -> bytes:
    """Return the bytes of a file; arguments and errors as for `check`."""
    check(path, most, follow)
    try:
        with open(os.open(path, os.O_RDONLY | NO_WAIT | (0 if follow else NO_LINK)), "rb") as file:
            _check(path, os.fstat(file.fileno()), most)
            found = file.read(most + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(found) > most:
        raise InputError(f"cannot read {path}: it has more than {most:,} bytes")
    return found


def text(path: Path, most: int, follow: bool = False) -> str:
    """Return the text of a file in UTF-8; arguments and errors as for `check`."""
    try:
        return content(path, most, follow).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {path}: it is not valid UTF-8 ({error.reason})") from None


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file and not a link."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder and not a link."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def path_of(name: object) -> Path:
    """Return the path in a setting.

    Raises:
      InputError: if no file can have that name.
    """
    found = Path(str(name))
    try:
        os.lstat(found)
    except ValueError as error:  # a zero byte, or half a letter
        raise InputError(f"{str(name)!r:.200} is not a path: {error}") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{str(name)!r:.80} is not a path: {error.strerror}") from None
    return found


def toml(written: str, source: object) -> dict[str, Any]:
    """Return the table of a TOML text.

    Args:
      written: the text.
      source: where it comes from, for messages.

    Raises:
      InputError: if it is none, or tables nest too deep or integers are too long.
    """
    if len(written) > SETTINGS:
        raise InputError(f"{source} is not a TOML file of settings: it has more than {SETTINGS:,} characters")
    for line in written.splitlines():
        if line.partition("=")[0].count(".") > DEEPEST:  # each line would take as long as its key
            raise InputError(f"{source} is not a TOML file: tables are nested more than {DEEPEST} deep")
    try:
        found = tomllib.loads(written)
    except (ValueError, RecursionError) as error:  # integers of more digits than Python reads are the former
        raise InputError(f"{source} is not a TOML file: {_first(error)}") from None
    check_plain(found, source)
    return found


def json_object(path: Path, most: int = NOTES) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
      InputError: if there is none, or lists nest too deep or integers are too long.
    """
    try:
        found = json.loads(text(path, most))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {path}: {_first(error)}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} is damaged: it is not an object")
    check_plain(found, path)
    return found


def _first(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def check_plain(found: object, source: object) -> None:
    """Reject deep nesting and integers of more than 64 bits, without recursion."""
    level, depth = [found], 0
    while level:
        if depth > DEEPEST:
            raise InputError(f"{source} is damaged: its values are nested more than {DEEPEST} deep")
        inner: list[Any] = []
        for value in level:
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise InputError(f"{source} is damaged: an integer has more than {LONGEST} digits")
            inner += value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        level, depth = inner, depth + 1


@contextlib.contextmanager
def arrays(path: Path, most: int, follow: bool = False) -> Iterator[tuple[Kinds, "Mapping[str, np.ndarray]"]]:
    """Open an .npz file: yield ({name: (shape, dtype)}, the open file); arrays are read on access.

    Args:
      path: the path of the file.
      most: bytes of each array, at most.
      follow: whether it may be a link.

    Raises:
      InputError: if it is damaged, or an array is larger.
    """
    import numpy as np

    check(path, AGENT, follow)
    try:
        _check_list(path)
        shapes = _shapes(path)
        large = next((name for name, of in shapes.items() if math.prod(of[0]) * of[1].itemsize > most), None)
        if large is not None:
            raise InputError(f"cannot read {path}: '{large}' has more than {most:,} bytes")
        with np.load(path, allow_pickle=False) as file:
            yield shapes, file
    except InputError:
        raise
    except DAMAGES as error:
        raise InputError(f"{path} is damaged ({_first(error)})") from None


DAMAGES = (
    *(OSError, ValueError, KeyError, EOFError, TypeError, OverflowError, MemoryError, RecursionError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, NotImplementedError, RuntimeError),
)  # what NumPy and zipfile raise where a file is not what it should be


def check_shapes(path: str | Path, there: Kinds, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that arrays have the expected names and shapes, and are f32.

    Raises:
      InputError: for an array too many, too few, or of another shape or dtype; it names `path`.
    """
    for name in there:
        if name not in shapes:
            raise unknown(f"array in {path}", name, shapes)
    for name, wanted in shapes.items():
        if name not in there:
            held = ", ".join(shapes) if len(shapes) <= 12 else f"{len(shapes)} arrays"
            raise InputError(f"{path} has no array {name}; it must hold {held}")
        shape, dtype = there[name]
        if shape != wanted or dtype != "float32":
            raise InputError(f"{name} of {path} is {dtype}{list(shape)}; it must be float32{list(wanted)}")


def check_finite(path: str | Path, found: "Mapping[str, np.ndarray]") -> None:
    """Check that arrays hold finite numbers; raise an InputError for the first that does not."""
    import numpy as np

    for name, array in found.items():
        if not np.isfinite(array).all():
            raise InputError(f"{name} of {path} holds a number that is not finite")


def _check_list(path: Path) -> None:
    """Reject an archive without a short list of files at its end, as NumPy writes it; `zipfile` reads all of it."""
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 42))
        locator, end = (last := file.read(42))[:-22], last[-22:]
    size = int.from_bytes(end[12:16], "little")
    if end[:4] != b"PK\5\6" or locator[:4] == b"PK\6\7" or size > SETTINGS:
        raise InputError(f"{path} is damaged (it does not end with a list of at most {SETTINGS:,} bytes)")


def _shapes(path: Path) -> Kinds:
    """Return the shapes and dtypes in an .npz file, by name, without reading its arrays."""
    import numpy as np

    found = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as stored:
                file = io.BytesIO(stored.read(HEADER))
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file)
                found[name.removesuffix(".npy")] = shape, dtype
    return found
