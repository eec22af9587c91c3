"""Statistics over seeds against SciPy's, and against the formulas written out in NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from purerl.functional import statistics

KEY = jax.random.key(0)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(10, 3, size=shape)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 10, 33])
def test_iqm_is_scipys_trimmed_mean(count):
    scores = normal(count, count)
    np.testing.assert_allclose(statistics.iqm(scores), scipy.stats.trim_mean(scores, 0.25), rtol=1e-5)


def test_centers_of_tasks():
    """As rliable defines them: the mean of all, the median of the tasks' means, the trimmed mean of all."""
    scores = normal(0, 6, 5) * np.arange(1, 6)
    np.testing.assert_allclose(statistics.mean(scores), scores.mean(), rtol=1e-5)
    np.testing.assert_allclose(statistics.median(scores), np.median(scores.mean(axis=0)), rtol=1e-5)
    np.testing.assert_allclose(statistics.median(scores[:, 0]), np.median(scores[:, 0]), rtol=1e-5)
    np.testing.assert_allclose(statistics.iqm(scores), scipy.stats.trim_mean(scores, 0.25, axis=None), rtol=1e-5)


def test_iqm_ignores_what_is_extreme():
    assert statistics.iqm(np.array([1.0, 2.0, 3.0, 1e9])) == 2.5


def test_probability_of_improvement_is_mann_and_whitneys():
    a, b = np.round(normal(1, 7, 3)), np.round(normal(2, 5, 3))  # rounded: some are equal
    each = [scipy.stats.mannwhitneyu(a[:, t], b[:, t]).statistic / (7 * 5) for t in range(3)]
    np.testing.assert_allclose(statistics.probability_of_improvement(a, b), np.mean(each), rtol=1e-5)
    np.testing.assert_allclose(statistics.probability_of_improvement(a[:, 0], b[:, 0]), each[0], rtol=1e-5)


def test_performance_profile():
    scores, thresholds = normal(3, 8, 2), np.array([0.0, 8.0, 10.0, 12.0, 99.0])
    expected = [np.mean(scores > tau) for tau in thresholds]
    np.testing.assert_allclose(statistics.performance_profile(scores, thresholds), expected, rtol=1e-6)


def test_area_under_curve():
    steps = np.array([0.0, 1.0, 3.0, 10.0])
    values = normal(4, 2, 4)
    expected = np.trapezoid(values, steps, axis=-1) / 10
    np.testing.assert_allclose(statistics.area_under_curve(steps, values), expected, rtol=1e-5)
    assert statistics.area_under_curve([2.0, 4.0], [5.0, 5.0]) == 5.0


@pytest.mark.long
def test_plain_interval_is_scipys():
    scores = normal(5, 30)
    ours = statistics.bootstrap_interval(KEY, scores, statistic=statistics.mean, resamples=20_000, expand=False)
    theirs = scipy.stats.bootstrap((scores,), np.mean, method="percentile", n_resamples=20_000, rng=0)
    np.testing.assert_allclose(ours, theirs.confidence_interval, atol=0.05)
    assert ours == statistics.bootstrap_interval(KEY, scores, statistic=statistics.mean, resamples=20_000, expand=False)


@pytest.mark.long
def test_expanded_interval_is_a_t_interval_for_a_mean():
    """For the mean of a normal sample, Student's interval is exact."""
    scores = normal(6, 12)
    low, high = statistics.bootstrap_interval(KEY, scores, statistic=statistics.mean, resamples=20_000)
    exact = scipy.stats.t.interval(0.95, 11, scores.mean(), scipy.stats.sem(scores))
    np.testing.assert_allclose([low, high], exact, atol=0.12 * (exact[1] - exact[0]))
    plain = statistics.bootstrap_interval(KEY, scores, statistic=statistics.mean, resamples=20_000, expand=False)
    assert high - low > 1.1 * (plain.high - plain.low)


def test_bootstrap_draws_within_each_task():
    """Two tasks with one score each but far apart: no draw mixes them up, so there is no spread at all."""
    scores = np.tile([0.0, 100.0], (5, 1))
    assert statistics.bootstrap_interval(KEY, scores, statistic=statistics.mean) == (50.0, 50.0)


def test_bootstrap_of_two_draws_each_by_itself():
    a, b = normal(7, 15), normal(8, 12)
    ours = statistics.bootstrap_interval(KEY, a, b, statistic=mean_difference, resamples=20_000, expand=False)
    theirs = scipy.stats.bootstrap(
        (a, b), lambda a, b, axis: a.mean(axis) - b.mean(axis), method="percentile", n_resamples=20_000, rng=0
    )
    np.testing.assert_allclose(ours, theirs.confidence_interval, atol=0.08)


mean_difference = functools.partial(statistics.difference, statistic=statistics.mean)


@pytest.mark.long
@pytest.mark.parametrize(
    ("statistic", "seeds", "tasks"),
    [(statistics.mean, 10, None), (statistics.iqm, 10, None), (statistics.iqm, 5, 6)],
)
def test_interval_holds_the_truth_as_often_as_it_says(statistic, seeds, tasks):
    """Coverage of the 95% interval between 93% and 97%, in 3000 simulated experiments (standard error 0.4%)."""
    shape = (seeds,) if tasks is None else (seeds, tasks)

    def holds(key):
        scores = jax.random.normal(key, shape)
        low, high = statistics.bootstrap_interval(
            jax.random.fold_in(key, 1), scores, statistic=statistic, resamples=300
        )
        return (low <= 0.0) & (high >= 0.0)

    keys = jax.random.split(KEY, 3000)
    hits = jax.jit(lambda keys: jax.lax.map(holds, keys, batch_size=500))(keys)
    assert 0.93 < float(jnp.mean(hits.astype(jnp.float32))) < 0.97


@pytest.mark.long_for("0.8", "3.0")
@pytest.mark.parametrize("gap", [0.8, 1.5, 3.0])
def test_seeds_needed_reaches_the_power(gap):
    """The power of a t test with that many seeds, by SciPy's noncentral t: enough, and with two fewer not enough."""
    a, b = normal(9, 40), normal(10, 40)
    a = (a - a.mean()) / a.std(ddof=1) + gap
    b = (b - b.mean()) / b.std(ddof=1)
    count = int(statistics.seeds_needed(a, b))

    def power(n):
        freedom, shift = 2 * n - 2, gap * np.sqrt(n / 2)
        limit = scipy.stats.t.ppf(0.975, freedom)
        return scipy.stats.nct.sf(limit, freedom, shift) + scipy.stats.nct.cdf(-limit, freedom, shift)

    assert power(count + 1) >= 0.8
    assert count <= 4 or power(count - 2) < 0.8
    assert np.isinf(statistics.seeds_needed(a, a))


@pytest.mark.long
def test_seeds_needed_counts_both_spreads():
    """By hand: means 0 and 2, variances 1 and 9; (1.960 + 0.842)^2 x 10 / 4 + 1.960^2 / 4 = 20.6."""
    a, b = np.array([-1.0, 0.0, 1.0]), np.array([-1.0, 2.0, 5.0])
    assert int(statistics.seeds_needed(a, b)) == int(statistics.seeds_needed(b, a)) == 21
