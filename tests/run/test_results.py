"""The status of a run in progress. tests/run/test_run.py reads the files of complete runs."""

from types import SimpleNamespace

import numpy as np
import pytest

import purerl
from purerl.reporting.display import CURVE
from purerl.run import results
from purerl.run.failures import FailedSeeds


def failed_seeds(count, failed):
    found = FailedSeeds(0, count)
    found.add(np.isin(np.arange(count), failed), np.ones(count))
    return found


def run(returns, failed=()):
    values = np.array(returns, np.float32)
    return SimpleNamespace(
        metadata={"trained": 50, "train_seconds": 2.0},
        config=SimpleNamespace(steps_per_update=64),
        options=SimpleNamespace(seeds=len(values)),
        plan=SimpleNamespace(num_updates=100),
        update=50,
        env_steps=3200,
        failed=failed_seeds(len(values), failed),
        returns=values,
        evaluation=values + 1,
    )


def test_the_status_of_a_run():
    shown = results.status(run([2.0, 4.0, 90.0], failed=[2]), {"loss": np.array([0.0, 0.5, np.nan])}, 187.0)
    assert (shown.share, shown.seconds_left, shown.height) == (0.5, 2.0, 3.0)
    assert shown.line == "      3,200 steps  return 3  (2 .. 4)  evaluation 4  (3 .. 5)  4,800 steps/s"
    assert shown.rows[0] == ("steps", "3,200 of 6,400 per seed, update 50")
    assert CURVE in shown.rows and ("losses", "loss 0.25") in shown.rows
    assert ("speed", "4,800 steps/s, 3:07 so far") in shown.rows


@pytest.mark.long
def test_the_status_of_a_run_of_which_nothing_is_known():
    shown = results.status(run([np.nan]), {}, 1.0)
    assert np.isnan(shown.height) and "return -  evaluation 1" not in shown.line and "return -" in shown.line
    failed = results.status(run([2.0], failed=[0]), {"loss": np.array([np.nan])}, 1.0)
    assert np.isnan(failed.height) and ("losses", "") in failed.rows


def test_what_cannot_be_imported_keeps_nothing_else_out(monkeypatch):
    tried = []

    def load(name):
        tried.append(name)
        if name == "orbax.checkpoint":
            raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.import_module", load)
    results.import_packages()
    assert tried[:3] == ["orbax.checkpoint", "matplotlib.figure", "matplotlib.backends.backend_agg"]


@pytest.mark.long
def test_the_result_is_shown_before_the_pictures_are_drawn(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("purerl.reporting.plot.plot_run", lambda folder: print("drawing", flush=True))
    small = {"num_envs": 2, "rollout_length": 8, "hidden_sizes": (8,), "total_timesteps": 64, "eval_episodes": 2}
    purerl.train("a2c", "CartPole-v1", out=tmp_path / "run", display="plain", **small)
    lines = capsys.readouterr().out.splitlines()
    at = lambda start: next(i for i, line in enumerate(lines) if line.startswith(start))
    assert at("done: final return") < at("drawing") < at("see ")
