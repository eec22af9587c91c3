"""Draw the gallery of environments in docs/gallery/: `python tools/gallery.py [ID ...]`.

Each picture shows the first steps of a random episode, in few colors.
"""

import sys
from pathlib import Path

import jax
import numpy as np
from PIL import Image

import purerl
from purerl.catalog.environments import ENVIRONMENTS
from purerl.reporting.render import frames, play, random_policy

FOLDER = Path(__file__).parent.parent / "docs" / "gallery"
WIDTH, STEPS, COLORS = 200, 40, 32


def draw(env_id: str, folder: Path = FOLDER) -> Path:
    """Play one episode, save it as a GIF of at most `WIDTH` pixels, and return the file."""
    env = purerl.make(env_id)
    episode = play(env, random_policy(env), jax.random.key(3), max_steps=STEPS)
    pictures = [shrunk(picture) for picture in frames(env, episode)]
    path = folder / f"{env_id}.gif"
    folder.mkdir(parents=True, exist_ok=True)
    first, *others = pictures
    first.save(path, save_all=True, append_images=others, duration=120, loop=0, optimize=True)
    return path


def shrunk(picture: np.ndarray) -> Image.Image:
    """Return a picture u8[H, W, 3] at the width of the gallery, on few colors."""
    image = Image.fromarray(picture)
    if image.width > WIDTH:
        image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.BOX)
    return image.quantize(COLORS, dither=Image.Dither.NONE)


def main() -> None:
    """Draw the environments that are named, or all."""
    for env_id in sys.argv[1:] or ENVIRONMENTS:
        path = draw(env_id)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
