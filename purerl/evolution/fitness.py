"""Transforms the fitness of a generation before a strategy sees it."""

import jax.numpy as jnp

from purerl.types import Array


def nan_is_worst(fitness: Array) -> Array:
    """Return f32[P] without NaN: failed candidates get the lowest other fitness minus the standard deviation.

    If all are NaN, or infinite, the result is 0 everywhere.
    """
    known = jnp.isfinite(fitness)
    count = jnp.maximum(jnp.sum(known), 1).astype(jnp.float32)
    mean = jnp.sum(jnp.where(known, fitness, 0.0)) / count
    spread = jnp.sqrt(jnp.sum(jnp.where(known, (fitness - mean) ** 2, 0.0)) / count)
    worst = jnp.min(jnp.where(known, fitness, jnp.inf))
    below = worst - jnp.where(spread > 0, spread, 1.0)
    return jnp.where(known, fitness, jnp.where(jnp.any(known), below, 0.0))


def standardize(fitness: Array) -> Array:
    """Return (fitness - mean) / standard deviation, f32[P]; 0 if all are equal."""
    centered = fitness - jnp.mean(fitness)
    deviation = jnp.std(fitness)
    return jnp.where(deviation > 0, centered / jnp.where(deviation > 0, deviation, 1.0), 0.0)


def centered_ranks(fitness: Array) -> Array:
    """Return ranks from -0.5 (worst) to 0.5 (best), f32[P]; ties share the mean rank."""
    below = jnp.sum(fitness[:, None] > fitness[None, :], axis=1)
    above = jnp.sum(fitness[:, None] < fitness[None, :], axis=1)
    return (below - above).astype(jnp.float32) / (2.0 * (fitness.shape[0] - 1))
