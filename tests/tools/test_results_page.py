"""The results page is made from the files, and shows their content."""

import re

import numpy as np
import pytest

from purerl import registry, stats
from purerl.settings import runs

pytestmark = pytest.mark.publish

RETURNS = {0: (20.0, 100.0), 1: (20.0, 60.0)}  # returns of two seeds, at the start and at the end


def test_the_page_is_made_of_the_files(script, files):
    page = (files.FOLDER / "README.md").read_text()
    assert page == script.table(), "python tools/learning_curves.py --table"
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert links and all((files.FOLDER / link).is_file() for link in links)


def test_the_charts_show_what_the_files_hold(script, files):
    for name, chart in script.results_charts.CHARTS.items():
        drawn = script.picture_file.shown(files.FOLDER / f"{name}.png")
        assert drawn == script.picture_file.digest(chart()[1]), "python tools/learning_curves.py --table"


def test_no_interval_has_fewer_than_five_seeds(script):
    rows = script.results_charts.scores()
    assert {row.low is None for row in rows if row.seeds < 5} == {True}
    few = next(row for row in rows if row.name == "brax/ant, ppo")  # the peer has two seeds
    assert few.seeds == 2 and few.value == pytest.approx(2.27, abs=0.01)


def test_every_missed_reference_has_its_reason(script, files):
    lines = (files.FOLDER / "README.md").read_text().splitlines()
    missed = [line.split(" | ")[:2] for line in lines if "| below by " in line]
    reasons = {(task, label): f"- {task}, {label}: {why}" for (task, label), why in script.MISSED.items()}
    assert {(task.strip("| "), label) for task, label in missed} <= set(reasons)
    below = {(c.figure.task, c.figure.label) for c in script.results_charts.compared() if mean(c.ours) < c.level}
    assert set(reasons) <= below
    assert set(reasons.values()) <= set(lines)
    why = lines[lines.index("Why a result is below its reference:") :]
    decided = [line for line in why[: why.index("Lower than the reference, with too few seeds for a verdict:")] if line]
    assert decided[1:] == [reasons[task.strip("| "), label] for task, label in missed]


@pytest.mark.pictures
def test_pictures_and_tables_of_one_task(script, files, tmp_path):
    figure = script.FIGURES[0]
    publish(script, files, figure, tmp_path)
    script.make_pages([figure.task], tmp_path)
    assert (tmp_path / "CartPole-v1.png").stat().st_size > 10_000
    page = (tmp_path / "README.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| [")]
    assert row.startswith("| [ppo](CartPole-v1/ppo.csv) | 4,096 | 2 | 80.0 | 80.0 |  | 60.0 to 100.0 |")
    assert "490.0 ± 6.1 (CleanRL)" in row and "Time limit: 500 steps." in page
    opening = page.split("## Comparison with published results")[1].split("## CartPole-v1")[0]
    assert "| ppo | 80.0 in 4k |  |  |  |  |" in opening
    assert "| CartPole-v1 | ppo | 4,096 | 80.0 | 490.0 ± 6.1 (CleanRL) | no verdict, 2 seeds |" in opening


@pytest.mark.parametrize(("algorithms", "panels"), [(1, [1]), (8, [8]), (9, [5, 4])])
def test_no_panel_of_a_picture_is_crowded(script, files, tmp_path, monkeypatch, algorithms, panels):
    drawn = []
    monkeypatch.setattr(script.plot, "panel", lambda axes, curves, title, **_: drawn.append(len(curves)))
    for figure in [figure for figure in script.FIGURES if figure.task == "CartPole-v1"][:algorithms]:
        publish(script, files, figure, tmp_path)
    script.draw("CartPole-v1", tmp_path)
    assert drawn == panels


def test_a_peer_s_own_curve_is_the_reference_of_ours(script, files, tmp_path):
    ours, theirs = (f for f in script.FIGURES if f.task == "brax/reacher" and f.algorithm == "ppo")
    assert theirs.peer == "brax"
    publish(script, files, ours, tmp_path)
    publish(script, files, theirs, tmp_path, worse=30.0)
    row = "| 80.0 | 50.0 (brax's own, run here, 2 seeds) | no verdict, 2 seeds |"
    assert row in script.table(tmp_path)
    five = {seed: (0.0, 60.0 + 10 * seed) for seed in range(5)}
    publish(script, files, ours, tmp_path, returns=five)
    for worse, said in ((10.0, "on par, 10.0 above"), (70.0, "above by 70.0")):
        publish(script, files, theirs, tmp_path, worse=worse, returns=five)
        (row,) = [line for line in script.table(tmp_path).splitlines() if "brax's own, run here, 5 seeds" in line]
        assert row.endswith(f"| {said} |") and " to " in row


def test_what_only_a_peer_reached_in_the_end_is_a_row_without_a_picture(script, files, tmp_path):
    theirs = next(f for f in script.FIGURES if f.peer and f.task == "Breakout-MinAtar")
    publish(script, files, theirs, tmp_path, returns={0: (100.0,), 1: (60.0,)})
    script.make_pages([theirs.task], tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert f"[{theirs.label}](" in page and ".png" not in page and not list(tmp_path.glob("*.png"))


def mean(result):
    """Return the IQM of a result."""
    return float(stats.iqm(result.final()))


def publish(script, files, figure, folder, worse=0.0, returns=RETURNS):
    """Write a result of two seeds, with the settings of a figure."""
    settings = script.settings_for(figure)
    text = runs.dump(settings, registry.make(settings.environment, **settings.parameters))
    points = [(seed, 4096 * at, value - worse) for seed, values in returns.items() for at, value in enumerate(values)]
    rows = [(seed, step, 8, value, value) for seed, step, value in points]
    columns = dict(zip(files.COLUMNS, np.array(rows, float).T, strict=True))
    path = files.path_of(figure.task, figure.label, folder)
    files.write(path, text, columns, {"figure": figure.label, "frames": 4096, "seconds": 1})
