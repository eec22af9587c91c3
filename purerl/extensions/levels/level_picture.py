"""A picture of several levels: an agent's path on each level, and how often it is solved."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from purerl.errors import InputError
from purerl.reporting.files import write_whole
from purerl.reporting.plot import literal

COLUMNS = 4


class Panel(NamedTuple):
    """One level."""

    picture: np.ndarray  # u8[H, W, 3]
    title: str
    share: float  # fraction of the episodes that solved it


def trail(frames: Sequence[np.ndarray]) -> np.ndarray:
    """Return the first picture of an episode, with later changes drawn at half strength: u8[H, W, 3]."""
    stack = np.stack(frames).astype(np.float32)
    changed = np.any(stack != stack[:1], axis=-1, keepdims=True)
    count = changed.sum(axis=0)
    later = (stack * changed).sum(axis=0) / np.maximum(count, 1)
    return np.where(count > 0, 0.5 * stack[0] + 0.5 * later, stack[0]).astype(np.uint8)


def save(panels: Sequence[Panel], path: Path) -> None:
    """Draw the panels in rows of four.

    Raises:
      InputError: if the file cannot be written.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = math.ceil(len(panels) / COLUMNS)
    columns = min(COLUMNS, len(panels))
    figure, axes = plt.subplots(rows, columns, figsize=(2.6 * columns, 2.9 * rows), squeeze=False)
    for axis in axes.ravel():
        axis.axis("off")
    for axis, panel in zip(axes.ravel(), panels, strict=False):
        axis.imshow(panel.picture)
        axis.set_title(literal(panel.title, f"\nsolved {panel.share:.0%}"), fontsize=9)
    figure.tight_layout()
    try:
        write_whole(path, lambda file: figure.savefig(file, format=path.suffix.removeprefix(".") or "png", dpi=110))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        plt.close(figure)
