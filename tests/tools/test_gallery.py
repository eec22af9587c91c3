"""The script that draws the gallery."""

import pytest
from PIL import Image

pytestmark = pytest.mark.publish


def test_a_picture_is_small_and_moves(script, tmp_path):
    path = script.draw("Catch", tmp_path)
    with Image.open(path) as picture:
        assert picture.width <= script.WIDTH and picture.n_frames > 3
    assert path.stat().st_size < 50_000
