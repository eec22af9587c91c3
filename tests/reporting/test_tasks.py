"""Comparing algorithms over tasks, by hand."""

import numpy as np
import pytest

from purerl import stats
from purerl.errors import InputError
from purerl.reporting import tasks
from tests.helpers.compared import write_run

RETURNS = {
    ("ppo", "CartPole-v1"): [500.0, 400.0, 450.0, 480.0, 490.0],
    ("ppo", "Acrobot-v1"): [-80.0, -85.0, -90.0, -75.0, -70.0],
    ("dqn", "CartPole-v1"): [100.0, 200.0, 150.0, None, 180.0],
    ("dqn", "Acrobot-v1"): [-100.0, -110.0, -120.0, -72.0, -130.0],
}


@pytest.fixture
def folders(tmp_path):
    made = []
    for (algorithm, task), returns in RETURNS.items():
        folder = write_run(tmp_path / f"{algorithm}-{task}", returns, task=task)
        text = (folder / "config.toml").read_text().replace("'ppo'", f"'{algorithm}'")
        (folder / "config.toml").write_text(text)
        made.append(folder)
    return made


def test_scores_are_on_one_scale(folders):
    found = stats.load(folders)
    assert found.tasks == ("CartPole-v1", "Acrobot-v1") and found.scale["Acrobot-v1"] == (-130.0, -70.0)
    wanted = np.sort((np.array(RETURNS["dqn", "Acrobot-v1"]) + 130) / 60)
    np.testing.assert_allclose(np.sort(found.scores["dqn"][:, 1]), wanted, rtol=1e-6)
    assert found.scores["dqn"][:, 0].min() == 0.0, "the seed that failed"
    given = stats.load(folders, {"CartPole-v1": (0.0, 500.0)})
    np.testing.assert_allclose(np.sort(given.scores["ppo"][:, 0]), np.sort(RETURNS["ppo", "CartPole-v1"]) / 500)


@pytest.mark.pictures
def test_the_better_one_is_first_and_drawn(folders, tmp_path):
    found = tasks.load(folders)
    first, second = tasks.table(found)
    assert (first[0], second[0]) == ("ppo", "dqn") and second[-1].startswith("9")
    a, b = (
        np.array([[-np.inf if x is None else x for x in RETURNS[name, t]] for t in found.tasks])
        for name in ("ppo", "dqn")
    )
    wins = [(x[:, None] > y).mean() for x, y in zip(a, b, strict=True)]
    assert tasks.improvement(found, "ppo", "dqn")[0] == pytest.approx(np.mean(wins))
    tasks.draw(found, tmp_path / "tasks.png")
    assert (tmp_path / "tasks.png").stat().st_size > 10_000


def test_what_cannot_be_compared(folders):
    with pytest.raises(InputError, match="dqn has no run on Acrobot-v1, but another algorithm has one"):
        tasks.load(folders[:3])
    with pytest.raises(InputError, match="ppo has two runs on CartPole-v1; give one for each task"):
        tasks.load([folders[0], *folders])
