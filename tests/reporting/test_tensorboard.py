"""--tensorboard without tensorboardX is refused before anything is written."""

import importlib.util

import pytest

from purerl.commands import cli


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
