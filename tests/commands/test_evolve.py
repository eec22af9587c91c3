"""`purerl evolve`: bad input is one line."""

import pytest
from click.testing import CliRunner

from purerl.commands.cli import cli
from purerl.errors import InputError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evolve"], "no objective given"),
        (["evolve", "lpoo"], "unknown objective 'lpoo': did you mean 'lpo'?"),
        (["evolve", "dpo", "--tasks", "CartPole-v1,Pendulum-v1"], "tasks must have actions of one kind"),
        (["evolve", "dpo", "--population", "5"], "antithetic sampling draws pairs: take 6"),
        (
            ["evolve", "dpo", "--env.gravityy", "3:5"],
            "unknown parameter of CartPole-v1 'gravityy': did you mean 'gravity'?",
        ),
        (["evolve", "dpo", "--strategy", "snees"], "unknown strategy 'snees'"),
        (["evolve", "--resume", "nowhere"], "there is no evolution in nowhere"),
        (["meta-evaluate", "nowhere"], "there is no evolution in nowhere"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(cli, arguments, catch_exceptions=False, standalone_mode=False)
    assert message in str(caught.value) and "\n" not in str(caught.value)
