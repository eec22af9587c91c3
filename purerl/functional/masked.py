"""Means and variances over the samples that count."""

from collections.abc import Mapping

import chex
import jax.numpy as jnp

from purerl.types import Array
from purerl.xla.reductions import over_columns


def mean(x: Array, mask: Array | None = None, axes: tuple[int, ...] | None = None) -> Array:
    """Return sum(mask x) / sum(mask), 0 if no sample counts; without a mask, exactly the plain mean.

    Args:
      x: f32[..., ...].
      mask: bool[...], of x's leading axes: which samples count; None for all.
      axes: what to take the mean over: all axes if None, else the leading ones, those of the mask.
    """
    if mask is None:
        return jnp.mean(x, axes)
    chex.assert_equal_shape_prefix([x, mask], mask.ndim)
    counts = mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
    number = jnp.maximum(jnp.sum(jnp.broadcast_to(counts, x.shape), axes, dtype=jnp.float32), 1.0)
    return jnp.sum(jnp.where(counts, x, 0.0), axes) / number


def means(columns: Mapping[str, Array], mask: Array | None = None) -> dict[str, Array]:
    """Return the `mean` of each column, f32[N]."""
    return over_columns(lambda x, axes: mean(x, mask, axes), columns)


def variance(x: Array, mask: Array | None = None, axes: tuple[int, ...] | None = None) -> Array:
    """Return the mean of (x - mean)^2 over the samples that count; arguments as for `mean`."""
    return jnp.var(x, axes) if mask is None else mean((x - mean(x, mask, axes)) ** 2, mask, axes)


def explained_variance(value: Array, target: Array, mask: Array | None = None) -> Array:
    """Return 1 - Var(target - value) / Var(target), f32[]: 1 for a perfect value function and 0 for a constant."""
    chex.assert_equal_shape([value, target])
    return 1.0 - variance(target - value, mask) / (variance(target, mask) + 1e-8)


def std(x: Array, mask: Array | None = None) -> Array:
    """Return the square root of `variance`, over all axes."""
    return jnp.std(x) if mask is None else jnp.sqrt(variance(x, mask))


def standardize(x: Array, mask: Array | None = None) -> Array:
    """Return x minus its mean over all axes, divided by its standard deviation."""
    return (x - mean(x, mask)) / (std(x, mask) + 1e-8)
