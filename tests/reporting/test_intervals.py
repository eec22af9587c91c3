"""The center of several seeds and its interval."""

import numpy as np
import pytest

from purerl.reporting import intervals


def test_many_seeds_have_stand_ins():
    """A band of 100,000 seeds is computed of 512 that lie as they do."""
    values = np.random.default_rng(0).permutation(np.linspace(0, 1, 100_000))[:, None]
    center, low, high, _ = intervals.center_and_interval(np.repeat(values, 2, axis=1))
    assert center == pytest.approx([0.5, 0.5], abs=0.01) and (high - low < 0.1).all() and (high > low).all()


@pytest.mark.parametrize(("seeds", "name"), [(4, "mean, range"), (5, "IQM, 95% interval")])
def test_an_interval_needs_five_seeds(seeds, name):
    assert intervals.center_and_interval(np.zeros((seeds, 1)))[3] == name
