"""The report of an evolution, from generations that are known."""

import html

import numpy as np
import pytest
from PIL import Image

from purerl.algo_parts.update_rules import LPG
from purerl.evolution.plan import EvolveOptions, make_plan
from purerl.evolution.report import write_report
from purerl.functional.drifts import KLPenalty
from purerl.functional.objectives import Drifting

COLUMNS = {
    "generation": np.arange(1.0, 21.0),
    "mean": np.linspace(10, 29, 20),
    "best": np.linspace(20, 39, 20),
    "spread": np.ones(20),
    "mean/Catch": np.linspace(10, 29, 20),
}


@pytest.fixture(scope="module")
def plan():
    return make_plan("kl", ["Catch"], EvolveOptions(population=4, generations=20), {"total_timesteps": 1000})


def test_pictures_and_a_page_that_shows_them(plan, tmp_path):
    frames = [(at, Drifting(drift=KLPenalty(coefficient=np.float32(1 + at)))) for at in (0, 10, 20)]
    page = write_report(plan, COLUMNS, frames, tmp_path / "report").read_text()
    for name in ("fitness.png", "heat_maps.png", "slices.png", "evolution.gif"):
        assert f'src="{name}"' in page
        with Image.open(tmp_path / "report" / name) as image:
            assert image.width > 200 and len(image.convert("RGB").getcolors(1 << 24)) > 20
    with Image.open(tmp_path / "report" / "evolution.gif") as image:
        assert image.n_frames == 3
    assert "went from 10 to 28.5 (last tenth)" in page and "<h1>Evolution of kl</h1>" in page
    form = (tmp_path / "report" / "closed_form.txt").read_text()
    assert "21 (r - 1 - log r)" in form and html.escape(form.strip()) in page


def test_what_is_no_objective_has_no_pictures_of_one(plan, key, tmp_path):
    page = write_report(plan, COLUMNS, [(0, LPG.create(key, 3, 4))], tmp_path).read_text()
    assert "fitness.png" in page and "heat_maps" not in page
    assert {path.name for path in tmp_path.iterdir()} == {"fitness.png", "index.html"}
