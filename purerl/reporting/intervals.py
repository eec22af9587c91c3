"""Curves of several seeds at common points: their center, and its interval."""

import functools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import jax

MOST_SEEDS = 512  # most seeds from which a band is computed; more are reduced to an evenly spaced subset
ENOUGH_SEEDS = 5  # least number of seeds for a 95% interval; with fewer, all reports show the range


def on_grid(curves: dict[int, tuple[np.ndarray, np.ndarray]], grid: np.ndarray) -> np.ndarray:
    """Return curves interpolated at common points, f64[seeds, points]; NaN outside their ranges."""
    lines = [np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in curves.values() if len(x)]
    return np.array(lines) if lines else np.empty((0, len(grid)))


def center_and_interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
    """Return (center, low, high, name of the center) over seeds, each f64[points].

    From five seeds on the center is the interquartile mean and the band its 95% bootstrap interval; below that they are
    the mean and the range.
    """
    robust = values.shape[0] >= ENOUGH_SEEDS
    center, low, high = (np.full(values.shape[1], np.nan) for _ in range(3))
    counts = np.sum(~np.isnan(values), axis=0)
    for count in np.unique(counts[counts > 0]):
        at = counts == count
        known = np.sort(values[:, at], axis=0)[:count]  # NaN comes last
        known = stand_ins(known, MOST_SEEDS)
        if robust:
            center[at], low[at], high[at] = _robust(known, values.shape[1])
        else:
            center[at], low[at], high[at] = known.mean(axis=0), known.min(axis=0), known.max(axis=0)
    return center, low, high, "IQM, 95% interval" if robust else "mean, range"


def stand_ins(ordered: np.ndarray, most: int) -> np.ndarray:
    """Return at most this many of [seeds, ...], evenly spaced in order from the first to the last."""
    count = len(ordered)
    return ordered[np.linspace(0, count - 1, most).astype(int)] if count > most else ordered


def _robust(known: np.ndarray, size: int) -> np.ndarray:
    """Return interquartile mean and interval, f64[3, points], of f64[seeds, points]; compiled for `size` points."""
    filled = np.resize(known.T, (size, len(known)))
    return np.array(_at_points()(filled))[:, : known.shape[1]]


@functools.cache
def _at_points() -> "jax.stages.Wrapped":
    """Return the program of `_robust`, which all curves of one shape share."""
    import jax

    from purerl.functional import statistics

    def at_point(scores: jax.Array) -> tuple[jax.Array, ...]:
        return statistics.iqm(scores), *statistics.bootstrap_interval(jax.random.key(0), scores, resamples=400)

    return jax.jit(jax.vmap(at_point))
