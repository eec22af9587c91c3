"""`purerl compare` prints who is better."""

import re

import pytest
from click.testing import CliRunner

from purerl.commands.compare import command
from tests.helpers.compared import write_runs


@pytest.fixture
def runs(tmp_path):
    return write_runs(tmp_path)


@pytest.mark.long
def test_command(runs, tmp_path):
    out = tmp_path / "c.svg"
    names = [str(runs[name]) for name in ("bad", "good", "one")]
    result = CliRunner(env={"COLUMNS": "140"}).invoke(command, [*names, "--out", str(out)], catch_exceptions=False)
    assert result.exit_code == 0
    assert "good beats bad by 10" in result.output
    rows = re.findall(r"^(good|bad|one) +\d", result.output, re.MULTILINE)
    assert rows == ["good", "bad", "one"]
    assert "<!-- good -->" in out.read_text()


@pytest.mark.long
def test_names_from_files_are_no_markup_and_no_escape_sequences(runs, tmp_path):
    task = r"[red]\u001b]0;stolen\u0007 $\\frac"  # as TOML writes it
    for name in ("bad", "good"):
        (runs[name] / "config.toml").write_text(f'format = 1\nalgorithm = "ppo"\nenvironment = "{task}"\n')
    out = str(tmp_path / "c.png")
    words = [str(runs["bad"]), str(runs["good"]), "--out", out]
    result = CliRunner(env={"COLUMNS": "140"}).invoke(command, words, catch_exceptions=False)
    assert result.exit_code == 0 and r"[red]\x1b]0;stolen\x07" in result.output and "\x1b]0" not in result.output
