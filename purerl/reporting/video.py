"""Videos of episodes: captions, grids, and files as MP4 or GIF."""

import importlib
import importlib.util
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from purerl.agent_groups import mean_reward
from purerl.errors import InputError, install
from purerl.reporting import render
from purerl.reporting.files import check_named, write_named
from purerl.reporting.render import Episode
from purerl.types import Environment, PyTree

SUFFIXES = (".gif", ".mp4", ".webm")
CODECS = {".mp4": "libx264", ".webm": "libvpx-vp9"}
LEAST = 240  # pixels of width that a caption needs
LINE = 18  # pixels of height of a caption


def check(path: pathlib.Path) -> None:
    """Raise an `InputError` before an episode is played if `save` cannot write the path.

    Raises:
      InputError: for another ending, a folder that is not there, or a package that is not installed.
    """
    check_named(path, "a video", SUFFIXES)
    if path.suffix.lower() in CODECS and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise InputError(f"{path.suffix} needs imageio: {install('video')}; .gif needs no package")


def drawable(env: Environment, name: str) -> None:
    """Raise an `InputError` if an environment cannot be rendered."""
    env = getattr(env, "unwrapped", env)
    if not hasattr(env, "render_episode"):
        raise InputError(f"{name} has no picture: its class has no method render")
    own = (type(env).render, type(env).render_episode)
    if isinstance(env, Environment) and own == (Environment.render, Environment.render_episode):
        raise InputError(f"{name} has no picture: it does not define render(state)")


def save(images: Sequence[np.ndarray], path: pathlib.Path, fps: float = 30.0) -> None:
    """Save pictures of one size, u8[H, W, 3], in the format of the path's extension."""
    check(path)
    suffix = path.suffix.lower()
    if suffix == ".gif":
        render.save_gif(images, path, fps)
        return
    imageio = importlib.import_module("imageio.v2")
    even = [np.pad(image, ((0, image.shape[0] % 2), (0, image.shape[1] % 2), (0, 0)), mode="edge") for image in images]

    def write(file: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            whole = pathlib.Path(folder) / f"video{suffix}"  # ffmpeg writes to a name alone
            with imageio.get_writer(whole, fps=fps, codec=CODECS[suffix], macro_block_size=1) as writer:
                for image in even:
                    writer.append_data(image)
            file.write(whole.read_bytes())

    write_named(path, write)


def captioned(images: Sequence[np.ndarray], episode: Episode) -> list[np.ndarray]:
    """Return an episode's pictures, starting with the first state, captioned with step, action and return."""
    from PIL import Image, ImageDraw, ImageFont

    rewards = np.asarray(mean_reward(episode.reward))
    returns = np.concatenate([[0.0], np.cumsum(rewards, dtype=np.float64)])
    font, written = ImageFont.load_default(), []
    for t, image in enumerate(images):
        scale = -(-LEAST // image.shape[1])
        image = np.asarray(image).repeat(scale, axis=0).repeat(scale, axis=1)
        action = action_text(jax.tree.map(lambda x, t=t: x[t - 1], episode.action)) if t else "-"
        canvas = Image.new("RGB", (image.shape[1], image.shape[0] + LINE), "white")
        canvas.paste(Image.fromarray(image), (0, 0))
        text = f"step {t}   return {returns[t]:.5g}   action {action}"
        ImageDraw.Draw(canvas).text((4, image.shape[0] + 3), text, fill="black", font=font)
        written.append(np.asarray(canvas))
    return written


def action_text(action: PyTree) -> str:
    """Return an action in a few characters."""
    named = [(jax.tree_util.keystr(path, simple=True), np.asarray(x)) for path, x in jax.tree.leaves_with_path(action)]
    words = [f"{name} {_numbers(x)}".strip() for name, x in named]
    text = "  ".join(words)
    return text if len(text) <= 60 else text[:57] + "..."


def _numbers(x: np.ndarray) -> str:
    whole = np.issubdtype(x.dtype, np.integer) or x.dtype == bool
    return " ".join(str(int(v)) if whole else f"{float(v):.2f}" for v in x.reshape(-1)[:12])


def grid(films: Sequence[Sequence[np.ndarray]], rows: int, columns: int) -> list[np.ndarray]:
    """Return films in a grid, row by row; one that ended keeps its last picture, and empty cells are white."""
    length = max(len(film) for film in films)
    empty = np.full_like(films[0][0], 255)
    frames = []
    for t in range(length):
        cells = [film[min(t, len(film) - 1)] for film in films] + [empty] * (rows * columns - len(films))
        lines = [np.concatenate(cells[r * columns : (r + 1) * columns], axis=1) for r in range(rows)]
        frames.append(np.concatenate(lines, axis=0))
    return frames
