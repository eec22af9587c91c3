"""Options of commands, made of an algorithm's fields."""

import dataclasses

import pytest

from purerl.commands import cli


def test_help_of_an_algorithm_lists_every_field(capsys):
    from purerl.algos.ppo import PPOConfig

    with pytest.raises(SystemExit):
        cli.main(["train", "ppo", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    for field in dataclasses.fields(PPOConfig):
        assert f"--{field.name.replace('_', '-')} " in out
        assert field.metadata["doc"] in out
    assert "discount of future rewards, per step [number; default 0.99]" in out
    assert "tanh | relu" in out
