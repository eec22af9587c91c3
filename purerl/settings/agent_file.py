"""One trained agent as a safetensors file: arrays, with its settings as metadata. Reading it executes nothing.

Source of the format: github.com/huggingface/safetensors.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerl import zoo
from purerl.errors import InputError
from purerl.trust import reading

if TYPE_CHECKING:
    import numpy as np

SUFFIX = ".safetensors"


def find(path: Path) -> Path | None:
    """Return an agent's file, from zoo/NAME or from the path itself; None for a folder or anything else."""
    if path.parent == Path("zoo") and not path.exists():
        return zoo.path_of(path.name)
    return path if path.suffix == SUFFIX and not path.is_dir() else None


def pack(arrays: Mapping[str, object], about: Mapping[str, str]) -> bytes:
    """Return the bytes of a file, identical for identical contents."""
    import numpy as np  # help pages need neither
    from safetensors.numpy import save

    return _sorted(save({name: np.asarray(array, order="C") for name, array in arrays.items()}, dict(about)))


def _sorted(content: bytes) -> bytes:
    """Return a file with its metadata sorted: the library writes them in any order."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at a multiple of 8
    return len(text).to_bytes(8, "little") + text + content[start:]


def about(path: Path) -> dict[str, str]:
    """Return a file's metadata about its agent, {name: text}."""
    with _opened(path) as file:
        found = file.metadata() or {}
    if any(len(text) > reading.SETTINGS for text in found.values()):
        raise InputError(
            f"{path} is not the file of an agent: a text in it has more than {reading.SETTINGS:,} characters"
        )
    return found


def settings_text(path: Path) -> str:
    """Return the config.toml of the run that trained an agent."""
    text = about(path).get("settings")
    if text is None:
        raise InputError(f"{path} holds numbers without settings: purerl export RUN FILE{SUFFIX} writes both")
    return text


def shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return {name: shape} of an agent's arrays, without reading them."""
    with _opened(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def arrays(path: Path) -> "dict[str, np.ndarray]":
    """Return an agent's numbers, {name: NumPy array}.

    Raises:
      InputError: as `about`; nothing larger than the file is made.
    """
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    reading.check(path, reading.AGENT, follow=True)
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except InputError:
        raise
    except (OSError, SafetensorError, AttributeError, TypeError, ValueError) as error:  # types that NumPy has not
        why = str(error).partition("\n")[0][:200]
        raise InputError(f"{path} is not the file of an agent: {why}") from None
