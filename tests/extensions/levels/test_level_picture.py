"""Pictures of levels: a trail by hand, and a file."""

import numpy as np
import pytest
from PIL import Image

from purerl.errors import InputError
from purerl.extensions.levels.level_picture import Panel, save, trail


@pytest.mark.long
def test_a_trail_is_what_changed_half_as_strong():
    frames = np.zeros((3, 1, 4, 3), np.uint8)
    frames[1, 0, 1] = 100
    frames[2, 0, 1], frames[2, 0, 2] = 200, 60
    np.testing.assert_array_equal(trail(list(frames))[0, :, 0], [0, 75, 30, 0])


@pytest.mark.long
def test_a_file(tmp_path):
    panels = [Panel(picture=np.full((20, 20, 3), 50 * i, np.uint8), title=f"level {i}", share=i / 5) for i in range(5)]
    save(panels, tmp_path / "levels.png")
    with Image.open(tmp_path / "levels.png") as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    assert {50 * i for i in range(5)} <= {int(x[0]) for x in np.unique(pixels, axis=0) if x[0] == x[1] == x[2]}
    with pytest.raises(InputError, match="cannot write"):
        save(panels, tmp_path / "none" / "levels.png")
