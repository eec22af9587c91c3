"""A generation's row and what the display shows of it, by hand."""

import numpy as np
import pytest

from purerl.evolution.generation_csv import COLUMNS, Shown, row_of
from purerl.evolution.generations import Generation
from purerl.evolution.plan import EvolveOptions, make_plan

NAN = np.nan


@pytest.fixture(scope="module")
def plan():
    options = EvolveOptions(population=4, generations=10, seeds=3)
    return make_plan("kl", ["CartPole-v1", "Catch"], options, {"total_timesteps": 1000})


def test_a_row_by_hand(plan):
    """A candidate that failed on one task counts in no mean over tasks, but in the other task's own mean."""
    fitness = np.float32([[1, 2, 3, NAN], [5, 6, 7, 8]])
    row = row_of(plan, Generation(fitness, np.zeros(1), np.float32(0.25)), 3, 12.5)
    assert set(row) == {*COLUMNS, "mean/CartPole-v1", "mean/Catch"}
    assert (row["generation"], row["wall_seconds"], row["sigma"], row["failed"]) == (3, 12.5, 0.25, 1)
    assert row["env_steps"] == 3 * 4 * 3 * 2 * 1000
    assert (row["mean"], row["best"], row["mean/CartPole-v1"], row["mean/Catch"]) == (4.0, 5.0, 2.0, 6.5)
    np.testing.assert_allclose(row["spread"], np.std([3, 4, 5]))


def test_all_failed(plan):
    row = row_of(plan, Generation(np.full((2, 4), np.inf, np.float32), np.zeros(1), np.float32(0.1)), 1, 1.0)
    assert np.isnan(row["mean"]) and np.isnan(row["best"]) and row["failed"] == 8


def test_where_it_stands(plan):
    row = row_of(plan, Generation(np.float32([[1, 3], [3, 5]]), np.zeros(1), np.float32(0.5)), 4, 8.0)
    shown = Shown(row, 10, 2.0, 1e6)
    assert (shown.share, shown.seconds_left, shown.height) == (0.4, 12.0, 3.0)
    assert shown.line() == "generation     4  mean 3  best 4  sigma 0.5  1,000,000 steps/s"
    assert [name for name, _ in shown.rows("~~~")] == [
        "generation",
        "speed",
        "fitness, mean",
        "",
        "fitness, best",
        "sigma",
    ]
    failed = Shown(row | {"failed": 2}, 10, 2.0, 1e6).rows("~~~")
    assert failed[-1] == ("failed", "2 trainings were not finite")
