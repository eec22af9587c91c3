"""What happened over several updates, kept in a few numbers: no stack grows with the length of a run."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.loop.metrics import EpisodeStatistics
from purerl.types import Array, Metrics


class Interval(NamedTuple):
    """The updates since the last point of a curve."""

    updates: Array  # i32[]
    statistics: EpisodeStatistics  # of all episodes that ended
    sums: Metrics  # f32[] each, the algorithm's metrics added up

    @staticmethod
    def empty(statistics: EpisodeStatistics, metrics: Metrics) -> "Interval":
        """Return the interval without updates; the arguments say which statistics and metrics there are."""
        none = EpisodeStatistics.clear(statistics.episodes.shape[0], tuple(statistics.info_sum))
        own = {name: jnp.float32(0) for name in metrics if name not in jax.eval_shape(EpisodeStatistics.summary, none)}
        return Interval(jnp.int32(0), none, own)

    def add(self, statistics: EpisodeStatistics, metrics: Metrics) -> "Interval":
        """Add one update: the episodes that ended in it, and its metrics."""
        sums = {name: total + metrics[name] for name, total in self.sums.items()}
        return Interval(self.updates + 1, self.statistics.merge(statistics), sums)

    def means(self) -> Metrics:
        """Return float32 scalars named as an update's metrics.

        `episodes` counts all; returns and lengths are means over those episodes, NaN where none ended; what is the
        algorithm's own is its mean over the updates.
        """
        divisor = jnp.maximum(self.updates, 1).astype(jnp.float32)
        return self.statistics.summary() | {name: total / divisor for name, total in self.sums.items()}
