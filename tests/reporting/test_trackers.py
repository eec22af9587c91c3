"""Rows to other packages: which numbers they get, what happens where they fail, and their own files read back."""

import importlib.util
from types import SimpleNamespace

import pytest

from purerl.errors import InputError
from purerl.reporting import trackers

ROWS = [
    {"seed": 3, "update": 2, "env_steps": 16, "wall_seconds": 1.0, "episode_return": 1.0, "loss": 0.5},
    {"seed": 4, "update": 2, "env_steps": 16, "wall_seconds": 1.0, "episode_return": float("nan"), "loss": 1.5},
]


def test_the_numbers_of_an_update():
    assert trackers.metrics_of(ROWS) == {
        "episode_return": 1.0,
        "loss": 1.0,
        "seed-3/episode_return": 1.0,
        "seed-3/loss": 0.5,
        "seed-4/loss": 1.5,
    }
    assert trackers.metrics_of(ROWS[:1]) == {"episode_return": 1.0, "loss": 0.5}


@pytest.mark.parametrize("name", trackers.PACKAGES)
def test_a_package_that_is_missing(name, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    options = SimpleNamespace(**dict.fromkeys(trackers.PACKAGES, False))
    trackers.require(options)
    setattr(options, name, True)
    with pytest.raises(InputError, match=rf"--{name} needs .*: pip install 'purerl\[{name}\]' \(in a clone"):
        trackers.require(options)


class Failing(trackers.Tracker):
    name = "it"

    def _open(self):
        self.logged = []

    def _log(self, rows):
        if rows[0]["env_steps"] > 16:
            raise ConnectionError("the server is gone\nand more")
        self.logged.append(rows[0]["env_steps"])

    def _finish(self):
        raise AssertionError("it is closed although it failed")


def test_what_fails_is_told_once_and_training_goes_on(tmp_path):
    told = []
    log = Failing(tmp_path, told.append)
    for step in (16, 24, 32):
        log.write([row | {"env_steps": step} for row in ROWS])
    log.close()
    assert told == ["it takes no more rows: the server is gone; metrics.csv goes on"]
    assert log.logged == [16]


def test_weights_and_biases(tmp_path, monkeypatch):
    """Offline: the files that it writes name the numbers; another process goes on under the same id."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    told = []
    for step in (16, 24):
        log = trackers.WandB("project", tmp_path, {"seeds": 2}, told.append)
        log.write([row | {"env_steps": step} for row in ROWS])
        log.close()
    assert told == []
    name = (tmp_path / "wandb.id").read_text().strip()
    files = sorted(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert files and {file.name for file in files} == {f"run-{name}.wandb"}
    assert all(b"seed-4/loss" in file.read_bytes() for file in files)


def test_mlflow(tmp_path, monkeypatch):
    """A store in a file: its own client reads the numbers, and the settings, of one run."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/store.db")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/store.db")
    folder, told = tmp_path / "run", []
    folder.mkdir()
    for step in (16, 24):
        log = trackers.MLflow(folder, {"seeds": 2}, told.append)
        log.write([row | {"env_steps": step} for row in ROWS])
        log.close()
    assert told == []
    client = mlflow.tracking.MlflowClient()
    name = (folder / "mlflow.id").read_text().strip()
    history = client.get_metric_history(name, "seed-4/loss")
    assert [(point.step, point.value) for point in history] == [(16, 1.5), (24, 1.5)]
    assert client.get_run(name).data.params == {"seeds": "2"}
