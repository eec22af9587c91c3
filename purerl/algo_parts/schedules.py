"""Schedules: what changes over a run follows one counter, the updates of its agent."""

from typing import Any

import jax.numpy as jnp

from purerl.types import Array


def environment_steps(config: Any, num_updates: Array) -> Array:
    """Return the environment steps of i32[] updates: f32[], which does not overflow."""
    return num_updates.astype(jnp.float32) * config.steps_per_update


def updates_of(config: Any, steps: int) -> int:
    """Return the updates after which `steps` environment steps are done, rounded up."""
    return -(-steps // config.steps_per_update)


def learning_rate(config: Any, num_updates: Array) -> Array | float:
    """Return the learning rate in the update that follows i32[] updates.

    With `config.anneal_learning_rate` it falls linearly to 0 over `config.total_timesteps`, one step down per update.
    """
    if not config.anneal_learning_rate:
        return config.learning_rate
    share = environment_steps(config, num_updates) / config.total_timesteps
    return config.learning_rate * jnp.maximum(1.0 - share, 0.0)
