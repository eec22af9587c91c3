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
        (["evolve", "dpo", "--population", "5"], "antithetic sampling needs pairs: use 6"),
        (
            ["evolve", "dpo", "--env.gravityy", "3:5"],
            "unknown parameter of CartPole-v1 'gravityy': did you mean 'gravity'?",
        ),
        (["evolve", "dpo", "--strategy", "snees"], "unknown strategy 'snees'"),
        (["evolve", "lpg", "--method", "metagradient"], "did you mean 'meta-gradient'?"),
        (
            ["evolve", "lpg", "--method", "meta-gradient", "--sigma", "1"],
            "sigma is an option of --method evolution; this is --method meta-gradient",
        ),
        (
            ["evolve", "dpo", "--inner-updates", "3"],
            "inner_updates is an option of --method meta-gradient; this is --method evolution",
        ),
        (
            ["evolve", "lpg", "--method", "meta-gradient", "--tasks", "gymnasium/CartPole-v1"],
            "gymnasium/CartPole-v1 runs on the host, so the compiled loop cannot hold it",
        ),
        (["evolve", "--resume", "nowhere"], "there is no evolution in nowhere"),
        (["meta-evaluate", "nowhere"], "there is no evolution in nowhere"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(cli, arguments, catch_exceptions=False, standalone_mode=False)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_options_of_extensions_are_not_taken():
    """An evolution trains without extensions, and would ignore them."""
    result = CliRunner().invoke(cli, ["evolve", "dpo", "--tasks", "Maze", "--levels", "dr"])
    assert result.exit_code == 2 and "No such option" in result.output
