"""What the README shows runs as it stands, but for the number of steps; every name it mentions exists."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from purerl.catalog.environments import ENVIRONMENTS
from purerl.commands.cli import cli
from tests.helpers.cli import unknown_parameters

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^    (?:pip install -q uv && )?uv run (purerl .*)$", README, re.MULTILINE)


def inline_names(text):
    """Return the dotted names `purerl.a.b` that stand in backticks outside of code blocks."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return sorted(
        {name for code in re.findall(r"`([^`]+)`", prose) for name in re.findall(r"\bpurerl(?:\.\w+)+", code)}
    )


def test_it_is_short_and_its_commands_run_in_a_clone():
    assert len(README.splitlines()) <= 150
    assert not re.search(r"^    (?:pip install -q uv && )?purerl ", README, re.MULTILINE), "write uv run purerl"
    assert len(BLOCKS) >= 3 and len(COMMANDS) >= 5


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_python_block_runs_alone(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    block = re.sub(r"total_timesteps=\d[\d_]*", "total_timesteps=11_000", block)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_and_pictures_are_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text) + re.findall(r'src="([^"]+)"', text)
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_exist_with_these_options(command):
    """Parsed by the real command line up to its help page, without training."""
    words = shlex.split(command)[1:]
    result = CliRunner().invoke(cli, [*words, "--help"])
    assert result.exit_code == 0, result.output
    assert words[0] in result.output.splitlines()[0]
    assert unknown_parameters(words) == set()


def test_the_readme_names_the_two_commands():
    assert "pip install -q uv && uv run purerl train ppo CartPole-v1" in README
    assert "pip install -q uv && uv run pytest" in README


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_it_counts_the_environments(page):
    assert f" {len(ENVIRONMENTS)} native " in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("file", ["README.md", "envs/README.md"])
def test_inline_names_resolve_after_import_purerl(file):
    """In a fresh process: the first attribute is public, so it resolves by itself, and the others follow from it."""
    names = inline_names((ROOT / file).read_text(encoding="utf-8"))
    assert names, "the file mentions no name"
    script = (
        "import functools, sys, purerl\n"
        "for name in sys.argv[1:]:\n"
        "    first, *others = name.split('.')[1:]\n"
        "    assert first in purerl.__all__, name\n"
        "    functools.reduce(getattr, others, getattr(purerl, first))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_inline_names_are_found_in_prose_alone():
    text = "Call `purerl.make(id)` or `x = purerl.stats.iqm(y)`.\n```python\npurerl.nothing\n```\npurerl.no_code"
    assert inline_names(text) == ["purerl.make", "purerl.stats.iqm"]
