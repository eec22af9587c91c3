"""Help pages in sections, 80 columns wide."""

import pytest
from click.testing import CliRunner

from purerl.commands.cli import COMMANDS, cli
from purerl.commands.sections import SECTION_OF, of_environment
from purerl.errors import hints
from purerl.settings.options import LaunchOptions, RunOptions

RUNNER = CliRunner(env={"COLUMNS": "80"})


def page(*words):
    result = RUNNER.invoke(cli, [*words, "--help"], catch_exceptions=False, terminal_width=80)
    assert result.exit_code == 0
    return result.output


def test_options_are_in_sections():
    out = page("train", "ppo", "CartPole-v1")
    titles = [line[:-1] for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    wanted = ["Options", "Seeds, evaluation and checkpoints", "Logging", "Devices and processes"]
    assert titles == [*wanted, "Parameters of CartPole-v1", "Settings of ppo", *titles[6:]]
    assert "--env.gravity X" in out and "[number; default 9.8]" in out
    assert "--hidden-sizes N,N,..." in out and "default 64,64" in out and "default ]" not in out
    assert set(SECTION_OF) - {"callback", "callbacks"} <= {*hints(RunOptions), *hints(LaunchOptions)}
    assert not of_environment("gymnax/CartPole-v1") and not of_environment("nowhere:Env")


@pytest.mark.parametrize(
    "command", [(), *((name,) for name in COMMANDS), ("train", "ppo", "CartPole-v1")], ids="-".join
)
def test_pages_have_80_columns_and_no_sentence_that_is_cut_off(command):
    lines = page(*command).splitlines()
    assert not [line for line in lines if len(line) > 80]
    assert not [line for line in lines if line.endswith("...") and line.startswith("  ") and "  " in line.strip()]
