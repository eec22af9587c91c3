"""Metrics of updates: statistics of the episodes that ended, and the algorithm's own. Nothing is stacked."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError
from purerl.types import LEARNING, Array, Metrics, PyTree
from purerl.xla.vmap_cond import any_member


class TrainMetrics(NamedTuple):
    """The metrics of one or several updates: {name: f32[]}."""

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
    info_sum: dict[str, Array]  # {name: f32[B]}: `TimeStep.info` at each episode's last step

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
          episode_length: i32[B], the same.
          info: {name: f32[B]}.
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
        """Return float32 scalars: episodes, and mean, min and max of return and length; NaN if no episode ended."""
        count = jnp.sum(self.episodes)
        some = count > 0
        divisor = jnp.maximum(count, 1).astype(jnp.float32)

        def known(value: Array) -> Array:
            return jnp.where(some, value.astype(jnp.float32), _unknown())

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
        """Return the summary together with the algorithm's metrics.

        Raises:
          InputError: if the algorithm gives a metric the name of an episode statistic.
        """
        episodes = self.summary()
        if twice := sorted(episodes.keys() & algorithm.keys()):
            raise InputError(f"metric '{twice[0]}' of the algorithm has the name of an episode statistic; rename it")
        return TrainMetrics(episodes=episodes, algorithm=algorithm)


class MetricsSum(NamedTuple):
    """The metrics of several updates, in as much memory as for one. NaN means that a metric is unknown."""

    updates: Array  # i32[], how many
    statistics: EpisodeStatistics  # statistics of all episodes that ended
    algorithm: Metrics  # {name: f32[]}, sums over the updates in which each is known
    known: Array  # f32[metrics], in how many updates each is known, in the order of their sorted names

    @staticmethod
    def zeros(statistics: EpisodeStatistics, algorithm: Metrics) -> "MetricsSum":
        """Return the sum over no updates, with the names of these statistics and metrics."""
        none = EpisodeStatistics.clear(statistics.episodes.shape[0], tuple(statistics.info_sum))
        zeros = {name: jnp.float32(0) for name in algorithm}
        return MetricsSum(
            updates=jnp.int32(0), statistics=none, algorithm=zeros, known=jnp.zeros(len(zeros), jnp.float32)
        )

    def add(self, statistics: EpisodeStatistics, algorithm: Metrics) -> "MetricsSum":
        """Add one update: the episodes that ended in it, and the algorithm's metrics."""

        def known(name: str) -> Array:
            learning, given = _learning_of(name, algorithm), ~jnp.isnan(algorithm[name])
            return given if learning is None else given & (algorithm[learning] > 0)

        now = {name: known(name) for name in sorted(algorithm)}
        return MetricsSum(
            updates=self.updates + 1,
            statistics=self.statistics.merge(statistics),
            algorithm={
                name: total + jnp.where(now[name], algorithm[name], 0.0) for name, total in self.algorithm.items()
            },
            known=self.known + _stacked(now),
        )

    def means(self) -> TrainMetrics:
        """Return the metrics in the form of a single update's.

        `episodes` counts all; returns and lengths are means over those episodes, NaN if none ended. The algorithm's
        metrics are means over the updates in which they are known: not NaN and, with `LEARNING` among them, only in
        updates that learned. NaN if they are known in no update.
        """

        def mean(total: Array, known: Array) -> Array:
            return jnp.where(known > 0, total / jnp.maximum(known, 1.0), _unknown())

        counts = dict(zip(sorted(self.algorithm), self.known, strict=True))
        return self.statistics.metrics({name: mean(total, counts[name]) for name, total in self.algorithm.items()})


class Failure(NamedTuple):
    """Whether an update failed, and by which metric."""

    failed: Array  # bool[]
    metric: Array  # i32[], its place among the sorted names
    infinite: Array  # bool[], whether the metric is infinite, else it and the parameters are NaN


def failure(algorithm: Metrics, agent: PyTree, before: MetricsSum) -> Failure:
    """Return whether an update failed: a metric is infinite, or both a metric and the agent's parameters are NaN.

    A NaN in a metric only means that it is unknown. The reported metric was known before, if any was.

    Args:
      algorithm: the update's metrics.
      agent: after the update.
      before: the sum over earlier updates.
    """
    if not algorithm:
        lost = has_nan(agent)
        return Failure(failed=lost, metric=jnp.int32(0), infinite=jnp.array(False))
    values = _stacked(algorithm)
    infinite, unknown = jnp.isinf(values), jnp.isnan(values)
    lost = jax.lax.cond(any_member(unknown.any()), lambda: has_nan(agent), lambda: jnp.array(False))
    suspects = jnp.where(unknown, 1.0 + before.known, 0.0)
    metric = jnp.where(infinite.any(), jnp.argmax(infinite), jnp.argmax(suspects))
    return Failure(
        failed=infinite.any() | (unknown.any() & lost), metric=metric.astype(jnp.int32), infinite=infinite.any()
    )


def sound(algorithm: Metrics, agent: PyTree) -> Array:
    """Return whether no metric is infinite and the agent's parameters are not NaN, bool[]."""
    infinite = [jnp.isinf(value) for value in algorithm.values()]
    return ~jnp.any(jnp.stack([*infinite, has_nan(agent)]))


def _unknown() -> float:
    """Return NaN; 0 under `jax_debug_nans`, which stops at every NaN that a program returns."""
    return 0.0 if jax.config.jax_debug_nans else math.nan  # type: ignore[attr-defined]


def _hidden(unknown: np.ndarray, value: PyTree) -> PyTree:
    return np.where(unknown, np.float32(np.nan), value)


def with_unknown(means: TrainMetrics) -> TrainMetrics:
    """Return means on the host, with NaN for unknown ones, even under `jax_debug_nans`."""
    no_episode = np.asarray(means.episodes["episodes"]) == 0
    episodes = {
        name: value if name == "episodes" else _hidden(no_episode, value) for name, value in means.episodes.items()
    }

    def learned(name: str) -> PyTree:
        learning = _learning_of(name, means.algorithm)
        if learning is None:
            return means.algorithm[name]
        return _hidden(np.asarray(means.algorithm[learning]) == 0, means.algorithm[name])

    return TrainMetrics(episodes=episodes, algorithm={name: learned(name) for name in means.algorithm})


def finite(algorithm: Metrics) -> Array:
    """Return whether all means of an algorithm's metrics are finite, except those not known yet, bool[]."""
    known = [jnp.array(True)]
    for name, mean in algorithm.items():
        learning = _learning_of(name, algorithm)
        known.append(jnp.isfinite(mean) if learning is None else jnp.isfinite(mean) | (algorithm[learning] == 0))
    return jnp.all(jnp.stack(known))


def has_nan(agent: PyTree) -> Array:
    """Return whether a parameter of an agent is NaN, bool[]."""
    return jnp.any(jnp.stack([jnp.array(False), *(jnp.isnan(leaf).any() for leaf in parameters(agent))]))


def parameters(agent: PyTree) -> list[Array]:
    """Return the float arrays in an agent's `params` fields; without such a field, all of rank 1 or more."""
    leaves = [(path, x) for path, x in jax.tree.leaves_with_path(agent) if jnp.issubdtype(x.dtype, jnp.inexact)]
    named = [x for path, x in leaves if any(_name_of(key) == "params" for key in path)]
    return named or [x for _, x in leaves if x.ndim]


def _name_of(key: object) -> object:
    return getattr(key, "name", getattr(key, "key", None))


def _stacked(algorithm: Metrics) -> Array:
    """Return f32[metrics] in the order of their sorted names."""
    return jnp.stack([algorithm[name].astype(jnp.float32) for name in sorted(algorithm)])


def _learning_of(name: str, algorithm: Metrics) -> str | None:
    """Return the metric that marks the updates in which another one (perhaps POLICY/NAME) was computed."""
    policy, slash, _ = name.rpartition("/")
    learning = f"{policy}{slash}{LEARNING}"
    return learning if learning in algorithm and learning != name else None
