"""`purerl meta-evaluate`: its options reach the comparison, and the table is printed and saved."""

from pathlib import Path
from types import SimpleNamespace

from click.testing import CliRunner

from purerl.commands.cli import cli
from purerl.evolution import evolve, meta_evaluate


def test_options_reach_the_comparison(monkeypatch):
    asked = []

    def compare(*given, **options):
        asked.append((*given, options))
        return SimpleNamespace(text=lambda: "learned 2.00")

    monkeypatch.setattr(evolve, "load", lambda folder: f"loaded {folder}")
    monkeypatch.setattr(meta_evaluate, "meta_evaluate", compare)
    monkeypatch.setattr(meta_evaluate, "save", lambda found, folder: folder / "meta.csv")
    words = ["meta-evaluate", "a", "b", "--tasks", "Catch, Acrobot-v1", "--seeds", "4", "--tuning", "0", "--no-cache"]
    result = CliRunner().invoke(cli, [*words, "--compare", "auc"], catch_exceptions=False)
    assert result.stdout == f"learned 2.00\n{Path('a') / 'meta.csv'}\n"
    assert result.stderr.startswith("compiling, then training 4 agents per task")
    assert asked == [(["loaded a", "loaded b"], ["Catch", "Acrobot-v1"], {"seeds": 4, "tuning": 0.0, "compare": "auc"})]


def test_a_comparison_needs_two_agents():
    result = CliRunner().invoke(cli, ["meta-evaluate", "a", "--seeds", "1"])
    assert result.exit_code != 0
