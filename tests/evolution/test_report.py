"""The report of an evolution, from generations that are known; a generation's row by hand."""

import html

import numpy as np
import pytest
from PIL import Image

from purerl.evolution.method import Generation
from purerl.evolution.plan import make_plan
from purerl.evolution.report import columns_of, row_of, status_of, write_report
from purerl.functional.drifts import KLPenalty
from purerl.functional.objectives import Drifting
from purerl.functional.update_rules import LPG
from purerl.settings.options import EvolveOptions

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


@pytest.mark.pictures
@pytest.mark.long
def test_pictures_and_a_page_that_shows_them(plan, tmp_path):
    frames = [(at, Drifting(drift=KLPenalty(coefficient=np.float32(1 + at)))) for at in (0, 10, 20)]
    page = write_report(plan, COLUMNS, frames, tmp_path / "report").read_text()
    for name in ("fitness.png", "heat_maps.png", "slices.png", "evolution.gif"):
        assert f'src="{name}"' in page
        with Image.open(tmp_path / "report" / name) as image:
            assert image.width > 200 and len(image.convert("RGB").getcolors(1 << 24)) > 20
    with Image.open(tmp_path / "report" / "evolution.gif") as image:
        assert image.n_frames == 3
    assert (
        "changed from 10 in the first generation to 28.5 in the last tenth" in page
        and "<h1>Evolution of kl</h1>" in page
    )
    form = (tmp_path / "report" / "closed_form.txt").read_text()
    assert "21 (r - 1 - log r)" in form and html.escape(form.strip()) in page


@pytest.mark.long
def test_what_is_no_objective_has_no_pictures_of_one(plan, key, tmp_path):
    page = write_report(plan, COLUMNS, [(0, LPG.create(key, 3, 4))], tmp_path).read_text()
    assert "fitness.png" in page and "heat_maps" not in page
    assert {path.name for path in tmp_path.iterdir()} == {"fitness.png", "index.html"}


def generation(fitness, sigma):
    """Return a generation of such fitness, f32[tasks, P]."""
    fitness = np.float32(fitness)
    metrics = {"sigma": np.float32(sigma)}
    return Generation(fitness=fitness, failed=~np.isfinite(fitness), mean=np.zeros(1), metrics=metrics)


@pytest.fixture(scope="module")
def rows_plan():
    options = EvolveOptions(population=4, generations=10, seeds=3)
    return make_plan("kl", ["CartPole-v1", "Catch"], options, {"total_timesteps": 1000})


@pytest.mark.long
def test_a_row_by_hand(rows_plan):
    """A candidate that failed on one task counts in no mean over tasks, but in the other task's own mean."""
    fitness = np.float32([[1, 2, 3, np.nan], [5, 6, 7, 8]])
    row = row_of(rows_plan, generation(fitness, 0.25), 3, 12.5)
    assert set(row) == {*columns_of("evolution"), "mean/CartPole-v1", "mean/Catch"}
    assert (row["generation"], row["wall_seconds"], row["sigma"], row["failed"]) == (3, 12.5, 0.25, 1)
    assert row["env_steps"] == 3 * 4 * 3 * 2 * 1000
    assert (row["mean"], row["best"], row["mean/CartPole-v1"], row["mean/Catch"]) == (4.0, 5.0, 2.0, 6.5)
    np.testing.assert_allclose(row["spread"], np.std([3, 4, 5]))


@pytest.mark.long
def test_all_failed(rows_plan):
    row = row_of(rows_plan, generation(np.full((2, 4), np.inf), 0.1), 1, 1.0)
    assert np.isnan(row["mean"]) and np.isnan(row["best"]) and row["failed"] == 8


@pytest.mark.long
def test_where_it_stands(rows_plan):
    row = row_of(rows_plan, generation([[1, 3], [3, 5]], 0.5), 4, 8.0)
    shown = status_of(row, generations=10, seconds=2.0, steps_per_second=1e6)
    assert (shown.share, shown.seconds_left, shown.height) == (0.4, 12.0, 3.0)
    assert shown.line == "generation     4  mean 3  best 4  sigma 0.5  1,000,000 steps/s"
    assert [name for name, _ in shown.rows] == [
        "generation",
        "speed",
        "fitness, mean",
        "",
        "fitness, best",
        "sigma",
    ]
    failed = status_of(row | {"failed": 2}, generations=10, seconds=2.0, steps_per_second=1e6)
    assert failed.rows[-1] == ("failed", "2 training runs were not finite")


@pytest.mark.long
def test_names_are_text_and_no_page(plan, tmp_path):
    task = plan.tasks[0]._replace(name="<script>alert(1)</script>")
    named = plan._replace(name="<img src=x>", tasks=(task,))
    page = write_report(named, COLUMNS | {"mean/<b>": COLUMNS["mean"]}, [], tmp_path).read_text()
    assert "<script>" not in page and "<img src=x>" not in page and "<b>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
