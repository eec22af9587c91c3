"""Scores of levels: estimates of an agent's regret on each level, from a rollout on it."""

import jax
import jax.numpy as jnp

from purerl.types import Array


def best_returns(reward: Array, done: Array) -> Array:
    """Return the highest return of an episode in each environment, f32[B].

    Only episodes that end in the rollout count; if none does, the unfinished one counts.

    Args:
      reward: f32[T, B]; the first step begins an episode.
      done: bool[T, B].
    """

    def step(carry: tuple[Array, Array], at: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        total, best = carry[0] + at[0], carry[1]
        best = jnp.where(at[1], jnp.maximum(best, total), best)
        return (jnp.where(at[1], 0.0, total), best), None

    none = jnp.full(reward.shape[1], -jnp.inf)
    (total, best), _ = jax.lax.scan(step, (jnp.zeros(reward.shape[1]), none), (reward, done))
    return jnp.where(jnp.isfinite(best), best, total)


def max_monte_carlo(value: Array, best_return: Array) -> Array:
    """Return mean_t(R_max - V(s_t)), f32[B]: how far the values are below the level's highest return so far.

    Args:
      value: f32[T, B].
      best_return: f32[B], R_max, of the whole episode, not discounted.

    Source: Jiang et al. (2021), arXiv:2110.02439.
    """
    return best_return - jnp.mean(value, axis=0)


def positive_value_loss(advantage: Array) -> Array:
    """Return mean_t max(A_t, 0), f32[B], with f32[T, B] advantages by GAE.

    Source: Jiang et al. (2021), arXiv:2110.02439.
    """
    return jnp.mean(jnp.maximum(advantage, 0.0), axis=0)
