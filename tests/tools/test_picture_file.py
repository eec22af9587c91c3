"""Pictures of figures that are stored in files."""

import numpy as np
import pytest
from PIL import Image

from purerl.reporting import plot

pytestmark = [pytest.mark.publish, pytest.mark.pictures]


def test_a_picture_keeps_its_look_in_fewer_bytes(script, tmp_path):
    figure = plot.new_figure(8, 5)
    figure.add_subplot().plot(np.arange(8.0), np.random.default_rng(0).normal(size=(8, 9)), label="ppo")
    path = tmp_path / "picture.png"
    plot.save(figure, path)
    before, size = np.asarray(Image.open(path).convert("RGB"), float), path.stat().st_size
    script.shrink(path)
    after = np.asarray(Image.open(path).convert("RGB"), float)
    assert before.shape == after.shape and np.abs(before - after).mean() < 1.0
    assert path.stat().st_size < size / 2
