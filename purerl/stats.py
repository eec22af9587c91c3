"""Statistics over seeds: the interquartile mean with a bootstrap interval.

Source: Agarwal et al. (2021), "Deep reinforcement learning at the edge of the statistical precipice", arXiv:2108.13264.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    """A 95% interval."""

    low: float
    high: float


def iqm(scores: np.ndarray, axis: int | tuple[int, ...] | None = None) -> np.ndarray:
    """Return the interquartile mean: the mean without the lowest and highest floor(n / 4) scores.

    Args:
      scores: f[...]; no NaN.
      axis: the axes it runs over, as one pool; None for all.
    """
    scores = np.asarray(scores, np.float64)
    axes = tuple(range(scores.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    scores = np.moveaxis(scores, axes, range(-len(axes), 0))
    pooled = np.sort(scores.reshape(*scores.shape[: scores.ndim - len(axes)], -1), axis=-1)
    cut = pooled.shape[-1] // 4
    return pooled[..., cut : pooled.shape[-1] - cut].mean(axis=-1)


def bootstrap_interval(
    scores: np.ndarray,
    statistic: Callable[..., np.ndarray] = iqm,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return the percentile interval of a stratified bootstrap: seeds are drawn anew within each task.

    Args:
      scores: f[seeds] or f[seeds, tasks].
      statistic: (scores, axis) -> the number of interest, such as `iqm` or `np.mean`.
      resamples: how often.
      confidence: how much of the bootstrap's distribution is inside.
      seed: of the draws; the same one gives the same interval.
    """
    scores = np.asarray(scores, np.float64)
    scores = scores[:, None] if scores.ndim == 1 else scores
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, scores.shape[0], (resamples, *scores.shape))
    values = statistic(scores[chosen, np.arange(scores.shape[1])], axis=(1, 2))
    tail = 50 * (1 - confidence)
    low, high = np.percentile(values, [tail, 100 - tail])
    return Interval(float(low), float(high))
