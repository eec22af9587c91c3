"""Exploration: how a value-based agent acts in training."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from purerl.networks.torsos import mask_illegal
from purerl.types import Array, Key, number, pytree

Exploration = Callable[[Key, Array, Array | None, Array], Array]


@pytree
class EpsilonGreedy:
    r"""A random legal action with probability epsilon, else the best: epsilon falls linearly, then stays.

    epsilon(t) = start + (end - start) min(t / steps, 1). Each of the three may be an array f32[B].
    """

    start: Any = number(default=1.0, doc="epsilon at first", at_least=0, at_most=1)
    end: Any = number(default=0.05, doc="epsilon in the end", at_least=0, at_most=1)
    steps: Any = number(default=100_000, doc="environment steps over which it falls", above=0)

    def epsilon(self, num_steps: Array) -> Array:
        """Return f32[] (or f32[B]) after `num_steps` i32[] environment steps."""
        fallen = jnp.minimum(num_steps.astype(jnp.float32) / self.steps, 1.0)
        return self.start + (self.end - self.start) * fallen

    def __call__(self, key: Key, q_values: Array, mask: Array | None, num_steps: Array) -> Array:
        """Return actions i32[B] for Q values f32[B, n], legal actions bool[B, n] or None, and i32[] steps so far."""
        num_envs, num_actions = q_values.shape
        bits = jax.random.uniform(key, (num_actions + 1, num_envs))
        # All scores 0 and random ties: the largest of random numbers is a uniform draw from the legal actions.
        drawn = jnp.argmax(mask_illegal(bits[1:].T, mask), axis=-1)
        best = jnp.argmax(mask_illegal(q_values, mask), axis=-1)
        return jnp.where(bits[0] < self.epsilon(num_steps), drawn, best).astype(jnp.int32)


def greedy(key: Key, q_values: Array, mask: Array | None, num_steps: Array) -> Array:
    """Return the best legal actions, i32[B]: the exploration of a network that is noisy itself."""
    return jnp.argmax(mask_illegal(q_values, mask), axis=-1).astype(jnp.int32)
