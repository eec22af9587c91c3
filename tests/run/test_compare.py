"""Comparing runs whose answer is known."""

import json

import numpy as np
import pytest
import scipy.stats
from click.testing import CliRunner

from purerl.commands.compare import command
from purerl.errors import InputError
from purerl.run import compare, metrics_csv


def write_run(folder, returns, task="CartPole-v1"):
    folder.mkdir()
    (folder / "config.toml").write_text(f"format = 1\nalgorithm = 'ppo'\nenvironment = '{task}'\n")
    (folder / "summary.json").write_text(json.dumps({"final_return": {"per_seed": returns}}))
    file = metrics_csv.Log(folder / "metrics.csv")
    for update in (1, 2, 3):
        known = [(seed, value) for seed, value in enumerate(returns) if value is not None]
        row = {"update": update, "env_steps": 100 * update, "wall_seconds": 0.1}
        rows = [row | {"seed": s, "episode_return": v * update / 3, "evaluation_return": v} for s, v in known]
        if rows:
            file.write(rows)
    file.close()
    return folder


@pytest.fixture
def runs(tmp_path):
    noise = scipy.stats.norm.ppf((np.arange(10) + 0.5) / 10)
    return {
        "good": write_run(tmp_path / "good", (100 + noise).tolist()),
        "same": write_run(tmp_path / "same", (100.2 + noise).tolist()),
        "bad": write_run(tmp_path / "bad", (90 + noise).tolist()),
        "few": write_run(tmp_path / "few", [80.0, None, 81.0, 82.0]),
        "one": write_run(tmp_path / "one", [50.0]),
    }


def test_the_better_one_wins_with_certainty(runs):
    good, bad = compare.load(runs["good"]), compare.load(runs["bad"])
    found = compare.duel(bad, good)
    assert (found.better.name, found.worse.name) == ("good", "bad")
    assert found.certain and found.probability == 1.0
    np.testing.assert_allclose(found.difference, 10.0, atol=1e-3)
    assert found.difference_interval[0] < 10 < found.difference_interval[1]
    assert found.seeds_needed <= 4
    assert compare.verdict(found, bad, good).startswith("good beats bad by 10 (95% interval ")


def test_equal_ones_cannot_be_told_apart(runs):
    good, same = compare.load(runs["good"]), compare.load(runs["same"])
    found = compare.duel(good, same)
    assert not found.certain
    sentence = compare.verdict(found, good, same)
    assert sentence.startswith("same and good cannot be told apart") and "seeds each would tell" in sentence
    assert 200 < found.seeds_needed < 800


def test_too_few_seeds_are_told(runs):
    good, few, one = (compare.load(runs[name]) for name in ("good", "few", "one"))
    assert compare.verdict(compare.duel(good, few), good, few).startswith("too few seeds (3; at least 5 are needed)")
    assert compare.duel(good, one) is None
    assert "one has one seed, so nothing can be said" in compare.verdict(None, good, one)


def test_command(runs, tmp_path):
    out = tmp_path / "c.svg"
    names = [str(runs[name]) for name in ("bad", "good", "one")]
    result = CliRunner(env={"COLUMNS": "140"}).invoke(command, [*names, "--out", str(out)], catch_exceptions=False)
    assert result.exit_code == 0
    assert "good beats bad by 10" in result.output
    lines = [line for line in result.output.splitlines() if "│" in line]
    assert [line.split("│")[1].strip() for line in lines] == ["good", "bad", "one"]
    assert "<!-- good -->" in out.read_text()


def test_what_cannot_be_compared(runs, tmp_path):
    other = write_run(tmp_path / "other", [1.0, 2.0], task="Acrobot-v1")
    with pytest.raises(InputError, match=r"other is on Acrobot-v1, good on CartPole-v1"):
        compare.rank([runs["good"], other])
    with pytest.raises(InputError, match="there is no run in"):
        compare.load(tmp_path)
    (runs["good"] / "summary.json").unlink()
    with pytest.raises(InputError, match="has not finished"):
        compare.load(runs["good"])
    with pytest.raises(InputError, match="no seed of"):
        compare.load(write_run(tmp_path / "none", [None, None]))
