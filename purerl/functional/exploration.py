"""Exploration: how a value-based agent chooses actions in training."""

from typing import Any, Protocol

import chex
import jax
import jax.numpy as jnp

from purerl.functional.action_masks import mask_illegal
from purerl.types import Array, Key, number, pytree


class Exploration(Protocol):
    """How a value-based agent chooses actions in training."""

    def __call__(self, key: Key, q_values: Array, mask: Array | None, num_steps: Array, /) -> Array:
        """Choose actions.

        Args:
          key: one for all environments.
          q_values: f32[B, n].
          mask: bool[B, n], the legal actions; None: all.
          num_steps: f32[], environment steps so far.

        Returns:
          i32[B].
        """
        ...


@pytree
class EpsilonGreedy:
    r"""A random legal action with probability epsilon, else the best. Epsilon falls linearly, then stays.

        epsilon(t) = start + (end - start) min(t / steps, 1)

    Each of the three may be an array f32[B].
    """

    start: Any = number(default=1.0, doc="initial epsilon", at_least=0, at_most=1)
    end: Any = number(default=0.05, doc="final epsilon", at_least=0, at_most=1)
    steps: Any = number(default=100_000, doc="environment steps over which it falls", above=0)

    def epsilon(self, num_steps: Array) -> Array:
        """Return f32[] (or f32[B]) after `num_steps` f32[] environment steps."""
        progress = jnp.minimum(num_steps / self.steps, 1.0)
        return self.start + (self.end - self.start) * progress

    def __call__(self, key: Key, q_values: Array, mask: Array | None, num_steps: Array) -> Array:
        """Choose actions; see `Exploration`."""
        chex.assert_rank(q_values, 2)
        num_envs, num_actions = q_values.shape
        bits = jax.random.uniform(key, (num_actions + 1, num_envs))
        # All scores 0 and random ties: the largest of random numbers is a uniform draw from the legal actions.
        random = jnp.argmax(mask_illegal(bits[1:].T, mask), axis=-1)
        best = jnp.argmax(mask_illegal(q_values, mask), axis=-1)
        return jnp.where(bits[0] < self.epsilon(num_steps), random, best).astype(jnp.int32)


def epsilon_greedy(config: Any) -> EpsilonGreedy:
    """Return epsilon-greedy exploration by epsilon_start, epsilon_end, exploration_fraction and total_timesteps."""
    steps = config.exploration_fraction * config.total_timesteps
    return EpsilonGreedy(start=config.epsilon_start, end=config.epsilon_end, steps=steps)


def greedy(key: Key, q_values: Array, mask: Array | None, num_steps: Array) -> Array:
    """Choose the best legal actions: an `Exploration` for networks with noisy weights."""
    return jnp.argmax(mask_illegal(q_values, mask), axis=-1).astype(jnp.int32)
