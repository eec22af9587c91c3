"""Metrics of updates: statistics of the episodes that ended, and what the algorithm reports. Nothing is stacked."""

from typing import NamedTuple

import jax.numpy as jnp

from purerl.errors import InputError
from purerl.types import Array, Metrics, PyTree


class TrainMetrics(NamedTuple):
    """The metrics of one update, or of several: f32[] by name."""

    episodes: Metrics  # `EpisodeStatistics.summary` of the episodes that ended; NaN where none did
    algorithm: Metrics  # what `Algorithm.update` returned; where the loop runs in Python also its own

    def flat(self) -> Metrics:
        """Return both parts as one dict: the columns of metrics.csv."""
        return self.episodes | self.algorithm


class EpisodeStatistics(NamedTuple):
    """Statistics of the episodes that ended since the last `clear`, per environment (axes [B])."""

    episodes: Array  # i32[B], how many
    return_sum: Array  # f32[B]
    return_min: Array  # f32[B], +inf without an episode
    return_max: Array  # f32[B], -inf without an episode
    length_sum: Array  # i32[B]
    length_min: Array  # i32[B]
    length_max: Array  # i32[B]
    info_sum: dict[str, Array]  # f32[B] by name: `TimeStep.info` at each episode's last step

    @staticmethod
    def clear(num_envs: int, info_names: tuple[str, ...] = ()) -> "EpisodeStatistics":
        """Return the statistics of no episodes."""
        zeros, ints = jnp.zeros(num_envs, jnp.float32), jnp.zeros(num_envs, jnp.int32)
        inf = jnp.full(num_envs, jnp.inf, jnp.float32)
        large = jnp.full(num_envs, jnp.iinfo(jnp.int32).max, jnp.int32)
        info_sum = dict.fromkeys(info_names, zeros)
        return EpisodeStatistics(
            episodes=ints,
            return_sum=zeros,
            return_min=inf,
            return_max=-inf,
            length_sum=ints,
            length_min=large,
            length_max=ints,
            info_sum=info_sum,
        )

    def add(self, done: Array, episode_return: Array, episode_length: Array, info: PyTree) -> "EpisodeStatistics":
        """Count the episodes that end with this step.

        Args:
          done: bool[B].
          episode_return: f32[B], of the whole episode so far, this step included.
          episode_length: i32[B], likewise.
          info: f32[B] by name.
        """
        length = jnp.where(done, episode_length, 0)
        return EpisodeStatistics(
            episodes=self.episodes + done.astype(jnp.int32),
            return_sum=self.return_sum + jnp.where(done, episode_return, 0.0),
            return_min=jnp.where(done, jnp.minimum(self.return_min, episode_return), self.return_min),
            return_max=jnp.where(done, jnp.maximum(self.return_max, episode_return), self.return_max),
            length_sum=self.length_sum + length,
            length_min=jnp.where(done, jnp.minimum(self.length_min, episode_length), self.length_min),
            length_max=jnp.maximum(self.length_max, length),
            info_sum={name: total + jnp.where(done, info[name], 0.0) for name, total in self.info_sum.items()},
        )

    def merge(self, later: "EpisodeStatistics") -> "EpisodeStatistics":
        """Count the episodes of both; axes as in each."""
        return EpisodeStatistics(
            episodes=self.episodes + later.episodes,
            return_sum=self.return_sum + later.return_sum,
            return_min=jnp.minimum(self.return_min, later.return_min),
            return_max=jnp.maximum(self.return_max, later.return_max),
            length_sum=self.length_sum + later.length_sum,
            length_min=jnp.minimum(self.length_min, later.length_min),
            length_max=jnp.maximum(self.length_max, later.length_max),
            info_sum={name: total + later.info_sum[name] for name, total in self.info_sum.items()},
        )

    def summary(self) -> Metrics:
        """Return float32 scalars: episodes, and mean, min and max of return and length; NaN where no episode ended."""
        count = jnp.sum(self.episodes)
        some = count > 0
        divisor = jnp.maximum(count, 1).astype(jnp.float32)

        def known(value: Array) -> Array:
            return jnp.where(some, value.astype(jnp.float32), jnp.nan)

        def mean(total: Array) -> Array:
            return known(jnp.sum(total.astype(jnp.float32)) / divisor)

        return {
            "episodes": count.astype(jnp.float32),
            "episode_return": mean(self.return_sum),
            "episode_return_min": known(jnp.min(self.return_min)),
            "episode_return_max": known(jnp.max(self.return_max)),
            "episode_length": mean(self.length_sum),
            "episode_length_min": known(jnp.min(self.length_min)),
            "episode_length_max": known(jnp.max(self.length_max)),
        } | {f"info/{name}": mean(total) for name, total in self.info_sum.items()}

    def metrics(self, algorithm: Metrics) -> TrainMetrics:
        """Return the summary beside the algorithm's metrics.

        Raises:
          InputError: if the algorithm gives a metric the name of an episode statistic.
        """
        episodes = self.summary()
        if twice := sorted(episodes.keys() & algorithm.keys()):
            raise InputError(f"metric '{twice[0]}' of the algorithm has the name of an episode statistic; rename it")
        return TrainMetrics(episodes=episodes, algorithm=algorithm)


class MetricsSum(NamedTuple):
    """The metrics of several updates, in as much memory as those of one."""

    updates: Array  # i32[], how many
    statistics: EpisodeStatistics  # of all episodes that ended
    algorithm: Metrics  # f32[] by name, sums over the updates

    @staticmethod
    def zeros(statistics: EpisodeStatistics, algorithm: Metrics) -> "MetricsSum":
        """Return the sum over no update, with the names of these statistics and metrics."""
        none = EpisodeStatistics.clear(statistics.episodes.shape[0], tuple(statistics.info_sum))
        return MetricsSum(updates=jnp.int32(0), statistics=none, algorithm={name: jnp.float32(0) for name in algorithm})

    def add(self, statistics: EpisodeStatistics, algorithm: Metrics) -> "MetricsSum":
        """Add one update: the episodes that ended in it, and the algorithm's metrics."""

        def learned(name: str) -> Array:
            learning = _learning_of(name, algorithm)
            return algorithm[name] if learning is None else jnp.where(algorithm[learning] > 0, algorithm[name], 0.0)

        return MetricsSum(
            updates=self.updates + 1,
            statistics=self.statistics.merge(statistics),
            algorithm={name: total + learned(name) for name, total in self.algorithm.items()},
        )

    def means(self) -> TrainMetrics:
        """Return metrics as of one update.

        `episodes` counts all; returns and lengths are means over those episodes, NaN where none ended. The algorithm's
        metrics are means over the updates; with a metric `learning` among them, which is 1 in an update that took
        gradient steps and else 0, the others are means over the updates that learned, NaN where none did.
        """
        updates = jnp.maximum(self.updates, 1).astype(jnp.float32)

        def mean(name: str) -> Array:
            learning = _learning_of(name, self.algorithm)
            if learning is None:
                return self.algorithm[name] / updates
            learned = self.algorithm[learning]
            return jnp.where(learned > 0, self.algorithm[name] / jnp.maximum(learned, 1.0), jnp.nan)

        return self.statistics.metrics({name: mean(name) for name in self.algorithm})


def finite(algorithm: Metrics) -> Array:
    """Return bool[]: whether an algorithm's means are all finite, those aside that are not known yet."""
    known = [jnp.array(True)]
    for name, mean in algorithm.items():
        learning = _learning_of(name, algorithm)
        known.append(jnp.isfinite(mean) if learning is None else jnp.isfinite(mean) | (algorithm[learning] == 0))
    return jnp.all(jnp.stack(known))


def _learning_of(name: str, algorithm: Metrics) -> str | None:
    """Return the metric that says in which updates another one (perhaps of a policy, POLICY/NAME) was learned."""
    learning = name.rpartition("/")[0] + "/learning" if "/" in name else "learning"
    return learning if learning in algorithm and learning != name else None
