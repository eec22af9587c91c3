"""The TOML of settings on disk: reads and writes `config.toml`, `sweep.toml` and `evolve.toml` in one format.

TOML has no null; it is written as "none".
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from purerl.catalog.version import VERSION
from purerl.errors import InputError, told, with_article
from purerl.settings import agent_file
from purerl.trust import reading

END = "# end"  # the last line of a file that is whole
FORMAT = 1  # format of the folders that runs, sweeps and evolutions write


class JobKind(NamedTuple):
    """A kind of long job, and the file of its settings."""

    noun: str
    command: str  # purerl COMMAND --resume FOLDER continues it
    file: str  # with its settings, in its folder

    def resume_call(self, folder: Path) -> str:
        """Return the Python call that resumes a job made from Python objects."""
        if self.command == "train":
            return f"purerl.resume('{folder}', algorithm=..., environment=...)"
        return f"purerl.{self.command}(..., out='{folder}', resume=True)"

    def calls(self, folder: Path, lacking: Sequence[str]) -> str:
        """Return the Python calls that load or resume a job made from Python objects, of which these are lacking."""
        if self.command == "train":
            objects = ", ".join([f"'{folder}'", *(f"{part}=..." for part in lacking)])
            return f"purerl.load_run({objects}) loads it, purerl.resume({objects}) resumes it"
        return f"resume it there with the same arguments: {self.resume_call(folder)}"


RUN = JobKind(noun="run", command="train", file="config.toml")
SWEEP = JobKind(noun="sweep", command="sweep", file="sweep.toml")
EVOLUTION = JobKind(noun="evolution", command="evolve", file="evolve.toml")


def no_job(kind: JobKind, folder: Path | str) -> InputError:
    """Return the error for a folder that is missing or does not hold a job of this kind."""
    if not os.path.isdir(folder):
        return InputError(f"there is no {kind.noun} in {folder}: no such folder")
    other = _other_job(kind, Path(folder))
    instead = f", it holds {with_article(other.noun)}" if other else ""
    return InputError(f"there is no {kind.noun} in {folder}: it has no {kind.file}{instead}")


def _other_job(kind: JobKind, folder: Path) -> JobKind | None:
    """Return the kind of the job in a folder that has none of this kind; None if there is none."""
    if os.path.lexists(folder / kind.file):
        return None
    return next((other for other in (RUN, SWEEP, EVOLUTION) if os.path.isfile(folder / other.file)), None)


def taken(folder: Path) -> InputError:
    """Return the error for a new folder that already exists."""
    if not folder.is_dir():
        return InputError(f"{folder} exists and is not a folder; choose another --out")
    begun = any((folder / kind.file).is_file() for kind in (RUN, SWEEP, EVOLUTION))
    also = f", or go on there with --resume {folder}" if begun else ""
    return InputError(f"{folder} exists; name another --out{also}")


def file_of(path: Path) -> Path:
    """Return a file of settings: the given one, the one in a run's folder, or the agent's for zoo/NAME.

    A file that the user names may be a link; one in a folder may not.
    """
    if path.is_dir():
        return path / RUN.file
    return agent_file.find(path) or (path.resolve() if path.is_symlink() else path)


def read(path: Path) -> dict[str, Any]:
    """Return the table of a TOML file, or the settings in an agent's file.

    Raises:
      InputError: if it cannot be read, is no TOML, or has another format of purerl's.
    """
    if path.name == RUN.file and _other_job(RUN, path.parent):
        raise no_job(RUN, path.parent)
    table = reading.toml(_text_of(path), path)
    written = table.get("format", FORMAT)
    if written != FORMAT:
        by = table.get("version", "another version")
        raise InputError(f"{path} has format {written}, written by purerl {by}; purerl {VERSION} reads {FORMAT}")
    return table


def _text_of(path: Path) -> str:
    is_agent = path.suffix == agent_file.SUFFIX
    return agent_file.settings_text(path) if is_agent else reading.text(path, reading.SETTINGS)


def read_folder(folder: Path, kind: JobKind, *needed: str, handed: Collection[str] = ()) -> dict[str, Any]:
    """Return the settings in the folder of a run, sweep or evolution.

    Args:
      folder: the folder of the job.
      kind: the kind of the job.
      needed: entries without which the file is not complete.
      handed: what the caller has as Python objects, such as "algorithm".

    Raises:
      InputError: if the folder holds no such job, or one of Python objects that no file can describe.
    """
    file = folder / kind.file
    if kind is RUN and agent_file.find(folder):
        file = file_of(folder)
    elif not os.path.lexists(file):
        raise no_job(kind, folder)
    table = read(file)
    from_python = table.get("from_python", [])
    lacking = [part for part in from_python if part not in handed] if isinstance(from_python, list) else ["objects"]
    if from_python and lacking:
        raise InputError(
            f"the {kind.noun} in {folder} was made in Python from objects that no file can hold "
            f"({', '.join(map(str, lacking))}): {kind.calls(folder, lacking)}"
        )
    missing = [name for name in ("format", *needed) if name not in table]
    if missing:
        raise InputError(f"{file} is not complete: it has no {' and no '.join(missing)}")
    if _text_of(file).rstrip().rpartition("\n")[2] != END:
        raise InputError(f"{file} is cut off: its last line is not '{END}'; add this line if all settings are there")
    return table


def tables(parent: Mapping[str, object], name: str, source: object) -> Mapping[str, Mapping[str, Any]]:
    """Return the table of tables with this name in a file; empty if there is none."""
    found = table(parent, name, source)
    return {inner: table(found, inner, source) for inner in found}


def table(parent: Mapping[str, object], name: str, source: object) -> Mapping[str, Any]:
    """Return the table with this name in a file; empty if there is none."""
    found = parent.get(name, {})
    if not isinstance(found, Mapping):
        raise InputError(f"{source}: {name} is {told(found)}; it must be a table")
    return found


@contextlib.contextmanager
def told_of(file: Path) -> Iterator[None]:
    """Add a file's name to an error about its values, if the message lacks it."""
    try:
        yield
    except InputError as error:
        if str(file) in str(error):
            raise
        raise InputError(f"{file}: {error}") from None


def text(comment: str, sections: Mapping[str, Any]) -> str:
    """Return a file's text.

    Args:
      comment: its first line.
      sections: dataclasses or mappings by headline: "" for none, "# a comment" or "[a table]"; empty ones are left out.
    """
    lines = [f"# {comment}", *entries({"format": FORMAT, "version": VERSION})]
    for headline, values in sections.items():
        written = entries(values)
        lines += ["", headline, *written] if headline and written else written
    return "\n".join([*lines, "", END]) + "\n"


def entries(values: Any) -> list[str]:
    """Return a line for each field of a dataclass or entry of a mapping that can be written as one."""
    pairs = {} if values is None else values
    if dataclasses.is_dataclass(pairs):
        pairs = {field.name: getattr(values, field.name) for field in dataclasses.fields(values)}
    return [f"{_key(name)} = {_toml(value)}" for name, value in pairs.items() if writable(value)]


def writable(value: object) -> bool:
    """Return whether a value can be written: a number, a text, true, false, none, or a list of these."""
    if isinstance(value, tuple | list):
        return all(writable(entry) for entry in value)
    return value is None or isinstance(plain(value), bool | int | float | str)


def plain(value: Any) -> object:
    """Return a NumPy number as a Python number, and any other value unchanged."""
    return value.item() if type(value).__module__ == "numpy" and value.ndim == 0 else value


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _text(name)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON's other escapes are TOML's


def flat(text: str) -> dict[str, Any]:
    """Return the settings in a file's text by their full names, such as "env.gravity"."""
    return flat_table(reading.toml(text, "what a checkpoint says of its settings"))


def flat_table(table: Mapping[str, object], prefix: str = "") -> dict[str, Any]:
    """Return the entries of a table and its subtables by their full names."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= flat_table(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def _toml(value: object) -> str:
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return '"none"'
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(entry) for entry in value) + "]"
    return repr(float(value) if isinstance(value, float) else value)  # a NumPy float, too, as a plain number
