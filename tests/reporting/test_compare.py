"""Comparing runs whose answer is known."""

import io

import numpy as np
import pytest
from rich.console import Console

from purerl.commands import compare as command
from purerl.errors import InputError
from purerl.reporting import compare
from tests.helpers.compared import write_run, write_runs


@pytest.fixture
def runs(tmp_path):
    return write_runs(tmp_path)


@pytest.mark.long
def test_the_better_one_wins_with_certainty(runs):
    good, bad = compare.load(runs["good"]), compare.load(runs["bad"])
    found = compare.duel(bad, good)
    assert (found.better.name, found.worse.name) == ("good", "bad")
    assert found.certain and found.probability == 1.0
    np.testing.assert_allclose(found.difference, 10.0, atol=1e-3)
    assert found.difference_interval[0] < 10 < found.difference_interval[1]
    assert found.seeds_needed <= 4
    assert compare.verdict(found, bad, good).startswith("good beats bad by 10 (95% interval ")


@pytest.mark.long
def test_equal_ones_cannot_be_told_apart(runs):
    good, same = compare.load(runs["good"]), compare.load(runs["same"])
    found = compare.duel(good, same)
    assert not found.certain
    sentence = compare.verdict(found, good, same)
    assert sentence.startswith("same and good cannot be told apart") and "seeds each would be enough" in sentence
    assert 200 < found.seeds_needed < 800


@pytest.mark.long
def test_too_few_seeds_are_told(runs):
    good, few, one = (compare.load(runs[name]) for name in ("good", "few", "one"))
    assert compare.verdict(compare.duel(good, few), good, few).startswith("too few seeds (4; at least 5 are needed)")
    assert compare.duel(good, one) is None
    assert "one has one seed, so nothing can be said" in compare.verdict(None, good, one)


def test_a_failed_seed_counts_as_the_worst(runs, tmp_path):
    """Four of ten seeds failed, the others reached 101: that must not rank above ten seeds at about 99."""
    diverging = write_run(tmp_path / "diverging", [101.0] * 6 + [None] * 4)
    first, second = compare.rank([diverging, write_run(tmp_path / "steady", [99.0 + 0.1 * i for i in range(10)])])
    assert (first.name, second.name, second.failed) == ("steady", "diverging", 4)
    assert second.returns.tolist() == [101.0] * 6 + [min(99.0, 101.0) / 3] * 4, "the lowest return of either run"
    assert compare.table([second])[0][1] == "10, 4 failed"


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


@pytest.mark.long
def test_other_parameters_of_the_environment_are_told(runs):
    good, bad = runs["good"], runs["bad"]
    assert compare.other_tasks(compare.rank([good, bad])) == ""
    for folder, limit in ((good, 200), (bad, 500)):
        with open(folder / "config.toml", "a") as file:
            file.write(f"[env]\ngravity = 9.8\ntime_limit = {limit}\n")
    told = compare.other_tasks(compare.rank([good, bad]))
    assert told == "the runs are on different tasks: env.time_limit 200 / 500"


def test_names_are_whole_on_80_columns():
    names = [f"ppo-penalty-CartPole-v1-{number}" for number in (11, 12)]
    rows = [(name, "10", "487.12", "480.15 .. 499.25", "486.18", "470.15 .. 500", "420.06") for name in names]
    console = Console(width=80, file=io.StringIO())
    head = ("run", "seeds", "IQM", "95% interval", "mean", "range", "curve area")
    command._show(console, "Final return", head, rows)
    shown = console.file.getvalue()
    assert all(name in shown for name in names) and max(map(len, shown.splitlines())) <= 80
    words = [word for row in (head, *rows) for cell in row for word in cell.split()]
    assert all(shown.count(word) >= words.count(word) for word in set(words))
