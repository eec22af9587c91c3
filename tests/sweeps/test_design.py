"""The trials sampled from ranges and lists."""

import numpy as np
import pytest
from scipy import stats

from purerl.settings.ranges import Choices, IntUniform, LogUniform, Uniform
from purerl.sweeps.design import trials


@pytest.mark.parametrize(
    ("dimension", "expected"),
    [
        (Uniform(8, 12), stats.uniform(8, 4)),
        (LogUniform(1e-4, 1e-1), stats.loguniform(1e-4, 1e-1)),
        (IntUniform(3, 7), stats.randint(3, 8)),
    ],
)
def test_draws_have_the_distribution_of_scipy(dimension, expected):
    drawn = [trial["x"] for trial in trials({"x": dimension}, "random", 4000, 1)]
    if dimension.whole:
        assert all(isinstance(x, int) for x in drawn)
        counts = np.bincount(drawn, minlength=8)[3:]
        assert stats.chisquare(counts, expected.pmf(np.arange(3, 8)) * len(drawn)).pvalue > 1e-3
        return
    assert stats.kstest(drawn, expected.cdf).pvalue > 1e-3
    np.testing.assert_allclose(dimension.at(dimension.position(np.array(drawn))), drawn, rtol=1e-9)
    assert all(float(np.float32(x)) == np.float32(x) and repr(x) == str(np.float32(x)) for x in drawn[:100])


def test_sobol_points_are_spread_evenly():
    """Each 64th of every range holds exactly one of 64 points; with random points, it does not."""
    dimensions = {"a": Uniform(0, 64), "b": Uniform(0, 64), "c": Choices(("x", "y"))}
    drawn = trials(dimensions, "qmc", 64, 5)
    for name in "ab":
        assert sorted(int(trial[name]) for trial in drawn) == list(range(64))
    assert sum(trial["c"] == "x" for trial in drawn) == 32
    assert len({int(trial["a"]) for trial in trials(dimensions, "random", 64, 5)}) < 64
    assert len(trials(dimensions, "qmc", 50, 5)) == 50
    assert trials(dimensions, "qmc", 64, 5) == drawn
    assert trials(dimensions, "qmc", 64, 6) != drawn


def test_grid():
    dimensions = {"rate": LogUniform(1e-4, 1e-2), "envs": Choices((4, 16)), "limit": IntUniform(1, 5)}
    found = trials(dimensions, "grid", 18, 0)  # 2 x 3 x 3
    assert len(trials(dimensions, "grid", 17, 0)) == 8  # 2 x 2 x 2
    assert len(found) == 18
    assert [trial["envs"] for trial in found[:6]] == [4, 4, 4, 16, 16, 16]
    assert sorted({trial["limit"] for trial in found}) == [1, 3, 5]
    np.testing.assert_allclose(sorted({trial["rate"] for trial in found}), [1e-4, 1e-3, 1e-2], rtol=1e-6)
    assert len(trials({"limit": IntUniform(1, 3)}, "grid", 10, 0)) == 3, "integers do not repeat"
