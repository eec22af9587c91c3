"""Flags made of the fields of dataclasses."""

import click

from purerl.commands.flags import options_of
from purerl.commands.options import given_values
from purerl.extensions.groups.options import GroupOptions
from purerl.settings.options import RunOptions


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
