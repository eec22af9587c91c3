"""Options of commands, made of an algorithm's fields."""

import dataclasses

import click
import pytest

from purerl.commands import cli
from purerl.commands.options import find_algorithm, given_values, options_of
from purerl.extensions.groups.options import GroupOptions
from purerl.settings.options import RunOptions


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


def test_text_stays_text_where_it_looks_like_a_number():
    with click.Context(click.Command("train", params=options_of(RunOptions))) as context:
        words = ["--start", "2024_10_05", "--wandb", "1e3", "--seeds", "1e1", "--devices", "2"]
        context.command.parse_args(context, words)
        given = given_values(context.params)
    assert given == {"start": "2024_10_05", "wandb": "1e3", "seeds": 10.0, "devices": 2}
    with click.Context(click.Command("train", params=options_of(GroupOptions))) as context:
        words = ["a.start=007", "a.frozen=true", "b.frozen=1e3", "b.learning_rate=1e3", "b.start=none"]
        context.command.parse_args(context, [word for text in words for word in ("--set", text)])
    assert context.params["groups"] == {
        "a": {"start": "007", "frozen": True},
        "b": {"frozen": "1e3", "learning_rate": 1000.0, "start": None},
    }


@pytest.mark.parametrize("flag", ["--callback", "--trust", "--wandb", "--out"])
def test_the_value_of_another_flag_names_no_algorithm(flag):
    assert find_algorithm([flag, "dqn", "ppo", "CartPole-v1"]) == "ppo"
    assert find_algorithm([flag, "watching:watch", "--plain"]) is None
