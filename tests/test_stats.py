"""Statistics over seeds against SciPy's."""

import numpy as np
import pytest
import scipy.stats

from purerl import stats


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 10, 33])
def test_iqm_is_scipys_trimmed_mean(count):
    scores = np.random.default_rng(count).normal(size=count)
    np.testing.assert_allclose(stats.iqm(scores), scipy.stats.trim_mean(scores, 0.25), rtol=1e-12)


def test_iqm_over_axes():
    scores = np.random.default_rng(0).normal(size=(6, 5, 3))
    np.testing.assert_allclose(stats.iqm(scores, axis=0), scipy.stats.trim_mean(scores, 0.25, axis=0), rtol=1e-12)
    pooled = scipy.stats.trim_mean(scores.transpose(0, 2, 1).reshape(6, 15), 0.25, axis=1)
    pooled_too = scipy.stats.trim_mean(scores.reshape(6, 15), 0.25, axis=1)
    np.testing.assert_allclose(stats.iqm(scores, axis=(1, 2)), pooled, rtol=1e-12)
    np.testing.assert_allclose(pooled, pooled_too, rtol=1e-12)
    assert stats.iqm(scores).shape == ()


def test_iqm_ignores_what_is_extreme():
    assert stats.iqm(np.array([1.0, 2.0, 3.0, 1e9])) == 2.5


def test_bootstrap_interval_is_scipys():
    scores = np.random.default_rng(1).normal(10, 3, size=30)
    ours = stats.bootstrap_interval(scores, np.mean, resamples=20_000)
    theirs = scipy.stats.bootstrap((scores,), np.mean, method="percentile", n_resamples=20_000, rng=0)
    np.testing.assert_allclose(ours, theirs.confidence_interval, atol=0.05)
    assert ours == stats.bootstrap_interval(scores, np.mean, resamples=20_000)


def test_bootstrap_draws_within_each_task():
    """Two tasks with one score each but far apart: no draw mixes them up, so there is no spread at all."""
    scores = np.tile([0.0, 100.0], (5, 1))
    assert stats.bootstrap_interval(scores, np.mean) == (50.0, 50.0)


def test_interval_covers_the_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    hits = 0
    for i in range(200):
        low, high = stats.bootstrap_interval(rng.normal(size=20), np.mean, resamples=500, seed=i)
        hits += low <= 0 <= high
    assert 0.86 < hits / 200 < 0.99
