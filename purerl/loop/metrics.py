"""Episode statistics, reduced on the fly: nothing is stacked per step."""

from typing import NamedTuple

import jax.numpy as jnp

from purerl.types import Array, Metrics, PyTree


class EpisodeStatistics(NamedTuple):
    """What the episodes that ended since the last `clear` were like, per environment (axes [B])."""

    episodes: Array  # i32[B], how many
    return_sum: Array  # f32[B]
    return_min: Array  # f32[B], +inf without an episode
    return_max: Array  # f32[B], -inf without an episode
    length_sum: Array  # i32[B]
    length_min: Array  # i32[B]
    length_max: Array  # i32[B]
    info_sum: PyTree  # f32[B] per name: the environment's own numbers, taken at each episode's last step

    @staticmethod
    def clear(num_envs: int, info_names: tuple[str, ...] = ()) -> "EpisodeStatistics":
        """Return the statistics of no episodes."""
        zeros, ints = jnp.zeros(num_envs, jnp.float32), jnp.zeros(num_envs, jnp.int32)
        inf = jnp.full(num_envs, jnp.inf, jnp.float32)
        large = jnp.full(num_envs, jnp.iinfo(jnp.int32).max, jnp.int32)
        info_sum = dict.fromkeys(info_names, zeros)
        return EpisodeStatistics(ints, zeros, inf, -inf, ints, large, ints, info_sum)

    def add(self, done: Array, episode_return: Array, episode_length: Array, info: PyTree) -> "EpisodeStatistics":
        """Count the episodes that end with this step.

        Args:
          ended: bool[B].
          episode_return: f32[B], of the whole episode so far, this step included.
          episode_length: i32[B], likewise.
          info: f32[B] per name.
        """
        length = jnp.where(done, episode_length, 0)
        return EpisodeStatistics(
            self.episodes + done.astype(jnp.int32),
            self.return_sum + jnp.where(done, episode_return, 0.0),
            jnp.where(done, jnp.minimum(self.return_min, episode_return), self.return_min),
            jnp.where(done, jnp.maximum(self.return_max, episode_return), self.return_max),
            self.length_sum + length,
            jnp.where(done, jnp.minimum(self.length_min, episode_length), self.length_min),
            jnp.maximum(self.length_max, length),
            {name: total + jnp.where(done, info[name], 0.0) for name, total in self.info_sum.items()},
        )

    def merge(self, later: "EpisodeStatistics") -> "EpisodeStatistics":
        """Count the episodes of both; axes as in each."""
        return EpisodeStatistics(
            self.episodes + later.episodes,
            self.return_sum + later.return_sum,
            jnp.minimum(self.return_min, later.return_min),
            jnp.maximum(self.return_max, later.return_max),
            self.length_sum + later.length_sum,
            jnp.minimum(self.length_min, later.length_min),
            jnp.maximum(self.length_max, later.length_max),
            {name: total + later.info_sum[name] for name, total in self.info_sum.items()},
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
