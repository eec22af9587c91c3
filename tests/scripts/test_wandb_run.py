"""The script that logs to Weights & Biases, with a stand-in for its package."""

import sys
import types

import pytest

from purerl.errors import InputError

pytestmark = pytest.mark.publish


class StandIn:
    """Keeps what is logged."""

    def __init__(self):
        self.rows, self.summary, self.given = [], {}, {}

    def init(self, **given):
        self.given = given
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def log(self, columns, step):
        self.rows.append((step, columns))


def test_rows_are_logged_by_environment_steps_and_a_return_ends_the_run(script, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    log = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=log.init))
    run = script.main(["--project", "p", "--mode", "offline", "--steps", "15360", "--every", "5", "--seeds", "2"])
    assert log.given["project"] == "p" and log.given["config"]["total_timesteps"] == 15_360
    assert [step for step, _ in log.rows] == [2_560 * (i + 1) for i in range(6)] and int(run.state.num_updates) == 30
    assert {"episode_return", "entropy"} <= set(log.rows[-1][1]) and log.summary["evaluation"] > 15
    table = run.metrics
    for step, columns in log.rows:
        of_both = table[table["env_steps"] == step]["episode_return"]
        assert len(of_both) == 2 and columns["episode_return"] == pytest.approx(of_both.mean(), rel=1e-5)
    first = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=first.init))
    script.main(["--project", "p", "--steps", "15360", "--every", "5", "--stop-at", "1"])
    assert len(first.rows) == 1


def test_without_the_package_it_says_so(script, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match="pip install wandb"):
        script.main(["--project", "p"])
