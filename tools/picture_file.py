"""PNG files of plots: each file holds a digest of the figures that it shows."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEY = "Description"  # key of the PNG's text entry


def digest(data: Any) -> str:
    """Return a hash of the figures that a picture shows, to four digits: twelve hexadecimal digits."""
    return hashlib.sha256(json.dumps(_rounded(data), sort_keys=True).encode()).hexdigest()[:12]


def _rounded(data: Any) -> Any:
    """Return data whose numbers are the same on all machines."""
    if isinstance(data, dict):
        return {name: _rounded(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_rounded(value) for value in data]
    return f"{data:.4g}" if isinstance(data, float) else data


def write(figure: "Figure", path: Path, data: Any) -> None:
    """Write a picture as PNG, with the digest of its data and without a date."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", metadata={KEY: digest(data), "Software": None})


def shrink(path: Path) -> None:
    """Write a PNG again with a palette of 256 colors, a third of its size: enough for curves and text."""
    with Image.open(path) as picture:
        kept, dpi = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE), picture.info.get("dpi")
    kept.save(path, optimize=True, **({"dpi": dpi} if dpi else {}))


def shown(path: Path) -> str:
    """Return the digest that a picture holds; "" if it holds none."""
    with Image.open(path) as picture:
        return str(picture.info.get(KEY, ""))
