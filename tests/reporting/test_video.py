"""Videos: what is written below, grids, and files that are what their name says."""

import importlib.util

import numpy as np
import pytest
from PIL import Image

from purerl.errors import InputError
from purerl.reporting import video
from purerl.reporting.render import Episode

EPISODE = Episode(state=None, action=np.array([1, 0], np.int32), reward=np.array([1.5, -1.0], np.float32), done=True)
IMAGES = [np.full((40, 50, 3), shade, np.uint8) for shade in (10, 120, 240)]


def test_captions_are_below_and_differ():
    written = video.captioned(IMAGES, EPISODE)
    assert {image.shape for image in written} == {(200 + video.LINE, 250, 3)}, "five times as large, for the words"
    for image, before in zip(written, IMAGES, strict=True):
        assert (image[:200] == before[0, 0]).all()
        assert (image[200:] == 255).any() and (image[200:] != 255).any()
    assert (written[1][200:] != written[2][200:]).any()


def test_the_words_are_those_of_the_steps(monkeypatch):
    from PIL import ImageDraw

    words = []

    class Draw:
        def text(self, at, text, **_):
            words.append(text)

    monkeypatch.setattr(ImageDraw, "Draw", lambda canvas: Draw())
    video.captioned(IMAGES, EPISODE)
    assert words == [
        "step 0   return 0   action -",
        "step 1   return 1.5   action 1",
        "step 2   return 0.5   action 0",
    ]
    groups = {"red": np.array([[1.0], [3.0]], np.float32)}
    words.clear()
    video.captioned(IMAGES[:2], EPISODE._replace(reward=groups, action={"red": np.array([[0.5], [2]], np.float32)}))
    assert words[1] == "step 1   return 1   action red 0.50"
    assert len(video.action_text(np.arange(100))) <= 60


def test_a_grid_holds_the_last_picture():
    films = [IMAGES, IMAGES[:1], IMAGES[:2]]
    frames = video.grid(films, 2, 2)
    assert len(frames) == 3 and frames[0].shape == (80, 100, 3)
    assert [int(frame[0, 0, 0]) for frame in frames] == [10, 120, 240]
    assert [int(frame[0, 99, 0]) for frame in frames] == [10, 10, 10]
    assert [int(frame[79, 0, 0]) for frame in frames] == [10, 120, 120]
    assert int(frames[0][79, 99, 0]) == 255


def test_a_gif(tmp_path):
    video.save(IMAGES, tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as image:
        assert image.format == "GIF" and image.n_frames == 3


def test_an_mp4(tmp_path):
    imageio = pytest.importorskip("imageio.v3")
    pytest.importorskip("imageio_ffmpeg")
    video.save([np.pad(image, ((0, 1), (0, 1), (0, 0))) for image in IMAGES], tmp_path / "a.mp4", fps=10)
    assert (tmp_path / "a.mp4").read_bytes()[4:8] == b"ftyp"
    frames = imageio.imread(tmp_path / "a.mp4", plugin="FFMPEG")
    assert frames.shape == (3, 42, 52, 3)
    assert abs(frames[:, :38, :48].mean(axis=(1, 2, 3)) - [10, 120, 240]).max() < 5


@pytest.mark.parametrize(
    ("name", "message"),
    [("a.avi", "ends in '.avi'; a video must end in .gif, .mp4, .webm"), ("no/a.gif", "there is no folder no")],
)
def test_what_cannot_be_written(name, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        video.check(tmp_path.__class__(name))


def test_a_package_that_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'purerl\[video\]'"):
        video.check(tmp_path / "a.mp4")
    video.check(tmp_path / "a.gif")
