"""TensorBoard events read back; a full disk and a missing package are told."""

import importlib
import importlib.util
import struct

import pytest

from purerl.commands import cli
from purerl.reporting.tensorboard import TensorBoard

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
    log = TensorBoard(tmp_path, 0, {"loss"}, told.append)
    log.write([ROW, ROW | {"seed": 4, "loss": 0.5}])
    where = tmp_path / "tensorboard"
    assert events(where / "seed-3") == [(16, "episodes/episode_return", 1.0)]
    assert events(where / "seed-4") == [(16, "episodes/episode_return", 1.0), (16, "algorithm/loss", 0.5)]
    log.close()
    again = TensorBoard(where.parent, 2, {"loss"}, told.append)
    again.write([ROW | {"seed": 5, "env_steps": 24}])
    assert events(where / "seed-5") == [(24, "begun", 1), (24, "episodes/episode_return", 1.0)] and told == []


def test_a_disk_that_takes_no_more_ends_the_log_alone(tmp_path, monkeypatch):
    told = []
    log = TensorBoard(tmp_path, 0, (), told.append)
    log.write([ROW])

    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(importlib.import_module("tensorboardX.record_writer").RecordWriter, "write", full)
    for _ in range(20):
        log.write([ROW])
    log.close()
    assert told == ["TensorBoard takes no more rows: [Errno 28] No space left on device; metrics.csv goes on"]


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
