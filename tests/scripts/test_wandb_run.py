"""The script that logs to Weights & Biases, beside a stand-in for its package."""

import sys
import types

import pytest

from purerl.errors import InputError


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


def test_rows_are_logged_by_environment_steps_and_a_return_ends_the_run(script, monkeypatch):
    run = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=run.init))
    state = script.main(["--project", "p", "--mode", "offline", "--steps", "15360", "--every", "5"])
    assert run.given["project"] == "p" and run.given["config"]["total_timesteps"] == 15_360
    assert [step for step, _ in run.rows] == [2_560 * (i + 1) for i in range(6)] and int(state.num_updates) == 30
    assert {"episode_return", "entropy"} <= set(run.rows[-1][1]) and run.summary["evaluation"] > 15
    first = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=first.init))
    script.main(["--project", "p", "--steps", "15360", "--every", "5", "--stop-at", "1"])
    assert len(first.rows) == 1


def test_without_the_package_it_says_so(script, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match="pip install wandb"):
        script.main(["--project", "p"])
