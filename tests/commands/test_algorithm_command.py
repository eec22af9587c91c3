"""Commands with flags for an algorithm's fields."""

import dataclasses

import pytest

from purerl.commands import cli
from purerl.commands.algorithm_command import find_algorithm


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


@pytest.mark.parametrize("flag", ["--callback", "--objective", "--trust", "--wandb", "--out"])
def test_the_value_of_another_flag_names_no_algorithm(flag):
    assert find_algorithm([flag, "dqn", "ppo", "CartPole-v1"]) == "ppo"
    assert find_algorithm([flag, "watching:watch", "--plain"]) is None


def test_an_agent_that_follows_a_rule_can_be_trained():
    assert find_algorithm(["lpg", "CartPole-v1", "--objective", "zoo/lpg"]) == "lpg"
