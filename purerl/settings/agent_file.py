"""One trained agent as a file: its settings and its numbers as safetensors. A file is data; reading it runs nothing.

    u64, the length of the header | the header, JSON | the numbers

The header's `__metadata__` holds texts: `settings` is the run's config.toml.
Source of the format: github.com/huggingface/safetensors.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from purerl.errors import InputError, unknown

SUFFIX = ".safetensors"
ZOO = Path(__file__).parent.parent / "zoo"
MOST = 2**24  # bytes of a header
_TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
_NAMES = {short: name for name, short in _TYPES.items() if name != "bfloat16"}  # NumPy alone has no bfloat16


def shipped() -> list[str]:
    """Return the names of the agents that ship, such as dqn-Asterix-MinAtar."""
    return sorted(path.stem for path in ZOO.glob(f"*{SUFFIX}"))


def find(path: Path) -> Path | None:
    """Return the file of an agent: that of zoo/NAME, or the path itself; None for a folder, or anything else.

    Raises:
      InputError: if no agent of this name ships.
    """
    if path.parent == Path("zoo") and not path.exists():
        if path.name not in shipped():
            raise unknown("agent of the zoo", path.name, shipped())
        return ZOO / f"{path.name}{SUFFIX}"
    return path if path.suffix == SUFFIX and not path.is_dir() else None


def pack(arrays: Mapping[str, Any], about: Mapping[str, str]) -> bytes:
    """Return the bytes of a file.

    Args:
      arrays: NumPy arrays by name.
      about: the header's `__metadata__`.
    """
    header: dict[str, Any] = {"__metadata__": dict(about)}
    data, end = [], 0
    for name, array in sorted(arrays.items()):
        data.append(array.tobytes())
        begin, end = end, end + len(data[-1])
        header[name] = {"dtype": _TYPES[str(array.dtype)], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((len(text).to_bytes(8, "little"), text, *data))


def about(path: Path) -> dict[str, str]:
    """Return what a file says of its agent: texts by name.

    Raises:
      InputError: if it cannot be read, or is no such file.
    """
    found = _header(path)[0].get("__metadata__", {})
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise _damaged(path, "its metadata are no texts")
    return found


def settings_text(path: Path) -> str:
    """Return the config.toml of the run that an agent is of.

    Raises:
      InputError: as `about`, or if the file has none.
    """
    text = about(path).get("settings")
    if text is None:
        raise InputError(f"{path} holds numbers without settings: purerl export RUN FILE{SUFFIX} writes both")
    return text


def arrays(path: Path) -> dict[str, Any]:
    """Return an agent's numbers, NumPy arrays by name.

    Raises:
      InputError: as `about`; nothing larger than the file is made.
    """
    header, data = _header(path)
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            found[name] = _array(path, name, entry, data)
    return found


def _header(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return (the header, the bytes after it)."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(MOST, len(content) - 8):
        raise _damaged(path, "it is cut off, or no such file")
    try:
        header = json.loads(content[8 : 8 + length])
    except (ValueError, RecursionError):
        raise _damaged(path, "its header is no JSON") from None
    if not isinstance(header, dict):
        raise _damaged(path, "its header is no table")
    return header, content[8 + length :]


def _array(path: Path, name: str, entry: Any, data: bytes) -> Any:
    """Return one array, its shape and place held to one another and to the file."""
    import numpy as np  # help pages need none

    try:
        dtype, shape = np.dtype(_NAMES[entry["dtype"]]), tuple(entry["shape"])
        begin, end = entry["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise _damaged(path, f"it does not say what {name} is") from None
    whole = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
    if not whole or end > len(data) or end - begin != math.prod(shape) * dtype.itemsize:
        raise _damaged(path, f"{name} does not fit its place")
    return np.frombuffer(data, dtype, math.prod(shape), begin).reshape(shape)


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"{path} is not the file of an agent: {why}")
