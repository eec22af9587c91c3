"""What the README shows runs as it stands, but for the number of steps."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from purerl.commands.cli import cli

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^    (?:pip install -q uv && uv run )?(purerl .*)$", README, re.MULTILINE)


def test_the_python_blocks_run_in_order():
    assert len(BLOCKS) >= 4
    names = {"__name__": "readme"}
    for block in BLOCKS:
        block = re.sub(r"total_timesteps=\d[\d_]*", "total_timesteps=11_000", block)
        exec(compile(block, "README.md", "exec"), names)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_exist_with_these_options(command):
    """Parsed by the real command line up to its help page, without training."""
    words = shlex.split(command)[1:]
    result = CliRunner().invoke(cli, [*words, "--help"])
    assert result.exit_code == 0, result.output
    assert words[0] in result.output.splitlines()[0]


def test_the_readme_names_the_two_commands():
    assert "pip install -q uv && uv run purerl train ppo CartPole-v1" in README
    assert "pip install -q uv && uv run pytest" in README
