"""Rows to other packages: which numbers they get, what happens where they fail, and their own files read back."""

import importlib
import importlib.util
import struct
from types import SimpleNamespace

import pytest

from purerl.commands import cli
from purerl.errors import InputError
from purerl.reporting import sinks

ROWS = [
    {"seed": 3, "update": 2, "env_steps": 16, "wall_seconds": 1.0, "episode_return": 1.0, "loss": 0.5},
    {"seed": 4, "update": 2, "env_steps": 16, "wall_seconds": 1.0, "episode_return": float("nan"), "loss": 1.5},
]


def test_the_numbers_of_an_update():
    assert sinks.metrics_of(ROWS) == {
        "episode_return": 1.0,
        "loss": 1.0,
        "seed-3/episode_return": 1.0,
        "seed-3/loss": 0.5,
        "seed-4/loss": 1.5,
    }
    assert sinks.metrics_of(ROWS[:1]) == {"episode_return": 1.0, "loss": 0.5}


@pytest.mark.parametrize("name", sinks.PACKAGES)
def test_a_package_that_is_missing(name, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    options = SimpleNamespace(**dict.fromkeys(sinks.PACKAGES, False))
    sinks.require(options)
    setattr(options, name, True)
    with pytest.raises(InputError, match=rf"--{name} needs .*: pip install 'purerl\[{name}\]' \(in a clone"):
        sinks.require(options)


class Failing(sinks.Tracker):
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
    log = Failing(tmp_path, {}, told.append)
    for step in (16, 24, 32):
        log.write([row | {"env_steps": step} for row in ROWS])
    log.close()
    assert told == ["it takes no more rows: the server is gone; metrics.csv goes on"]
    assert log.logged == [16]


def test_weights_and_biases(tmp_path, monkeypatch):
    """Offline: the files that it writes name the numbers; another process continues under the same id."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    told = []
    for step in (16, 24):
        log = sinks.WandB("project", tmp_path, {"seeds": 2}, told.append)
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
        log = sinks.MLflow(folder, {"seeds": 2}, told.append)
        log.write([row | {"env_steps": step} for row in ROWS])
        log.close()
    assert told == []
    client = mlflow.tracking.MlflowClient()
    name = (folder / "mlflow.id").read_text().strip()
    history = client.get_metric_history(name, "seed-4/loss")
    assert [(point.step, point.value) for point in history] == [(16, 1.5), (24, 1.5)]
    assert client.get_run(name).data.params == {"seeds": "2"}


ROW = {"seed": 3, "update": 2, "env_steps": 16, "wall_seconds": 1.0, "episode_return": 1.0, "loss": float("nan")}


def events(folder):
    """Return (step, tag or "begun", value) of all event files, each a row of length, checksum, event, checksum."""
    event = importlib.import_module("tensorboardX.proto.event_pb2").Event
    found = []
    for file in sorted(folder.glob("events*")):
        data, at = file.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            read = event.FromString(data[at + 12 : at + 12 + length])
            found += [(read.step, value.tag, value.simple_value) for value in read.summary.value]
            found += [(read.step, "begun", read.session_log.status)] if read.HasField("session_log") else []
            at += 16 + length
    return found


def test_rows_are_there_once_they_are_written(tmp_path):
    told = []
    log = sinks.TensorBoard(tmp_path, 0, {"loss"}, told.append)
    log.write([ROW, ROW | {"seed": 4, "loss": 0.5}])
    where = tmp_path / "tensorboard"
    assert events(where / "seed-3") == [(16, "episodes/episode_return", 1.0)]
    assert events(where / "seed-4") == [(16, "episodes/episode_return", 1.0), (16, "algorithm/loss", 0.5)]
    log.close()
    again = sinks.TensorBoard(where.parent, 2, {"loss"}, told.append)
    again.write([ROW | {"seed": 5, "env_steps": 24}])
    assert events(where / "seed-5") == [(24, "begun", 1), (24, "episodes/episode_return", 1.0)] and told == []


def test_a_disk_that_takes_no_more_ends_the_log_alone(tmp_path, monkeypatch):
    told = []
    log = sinks.TensorBoard(tmp_path, 0, (), told.append)
    log.write([ROW])

    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(importlib.import_module("tensorboardX.record_writer").RecordWriter, "write", full)
    for _ in range(20):
        log.write([ROW])
    log.close()
    assert told == ["TensorBoard takes no more rows: [Errno 28] No space left on device; metrics.csv goes on"]


@pytest.mark.long
def test_a_missing_package_is_told_at_once(tmp_path, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "tensorboardX" else found(name, *rest)
    )
    folder = tmp_path / "run"
    with pytest.raises(SystemExit) as caught:
        cli.main(["train", "ppo", "CartPole-v1", "--tensorboard", "--out", str(folder)])
    assert caught.value.code == 2
    assert "pip install 'purerl[tensorboard]'" in capsys.readouterr().err
    assert not folder.exists()
