"""Means and spreads over the samples that count."""

from collections.abc import Mapping

import jax.numpy as jnp

from purerl.types import Array
from purerl.xla import backend


def mean(x: Array, mask: Array | None = None, axes: tuple[int, ...] | None = None) -> Array:
    """Return sum(mask x) / sum(mask), 0 where no sample counts; without a mask the plain mean, to the bit.

    Args:
      x: f32[..., ...].
      mask: bool[...], of x's leading axes: which samples count; None for all.
      axes: what to take the mean over: all axes if None, else the leading ones, those of the mask.
    """
    if mask is None:
        return jnp.mean(x, axes)
    chosen = mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
    number = jnp.maximum(jnp.sum(jnp.broadcast_to(chosen, x.shape), axes, dtype=jnp.float32), 1.0)
    return jnp.sum(jnp.where(chosen, x, 0.0), axes) / number


def means(columns: Mapping[str, Array], mask: Array | None = None) -> dict[str, Array]:
    """Return the `mean` of each column, f32[N]; on a GPU in one reduction, where each would be two kernels."""
    if backend.name() == "cpu":
        return {name: mean(x, mask) for name, x in columns.items()}
    together = mean(jnp.stack(list(columns.values()), axis=-1), mask, (0,))
    return {name: together[place] for place, name in enumerate(columns)}


def variance(x: Array, mask: Array | None = None, axes: tuple[int, ...] | None = None) -> Array:
    """Return the mean of (x - mean)^2 over the samples that count; arguments as for `mean`."""
    return jnp.var(x, axes) if mask is None else mean((x - mean(x, mask, axes)) ** 2, mask, axes)


def std(x: Array, mask: Array | None = None) -> Array:
    """Return the square root of `variance`, over all axes."""
    return jnp.std(x) if mask is None else jnp.sqrt(variance(x, mask))
