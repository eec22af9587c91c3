"""Initializers: distributions of a layer's initial weights."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.types import Array, Key


class Initializer(Protocol):
    """A function that samples the initial weights of a layer."""

    def __call__(self, key: Key, shape: Any, dtype: object = ..., /) -> Array:
        """Return an array of this shape and dtype."""
        ...


def orthogonal(scale: float = 1.0) -> Initializer:
    """Return an initializer: a matrix with orthonormal rows or columns times `scale`.

    It orthogonalizes by Gram-Schmidt, twice per row, rather than by LAPACK's QR: a batched QR (this under a vmap
    over seeds) can hang XLA's CPU backend.

    Source: Saxe et al. (2014), arXiv:1312.6120.
    """

    return partial(_orthogonal, scale)


@partial(jax.jit, static_argnums=(0, 2, 3), inline=True)  # flax asks for its shape whenever a layer is applied
def _orthogonal(scale: float, key: Key, shape: Sequence[int], dtype: Any = jnp.float32) -> Array:
    rows, columns = math.prod(shape[:-1]), shape[-1]
    wide = jax.random.normal(key, (min(rows, columns), max(rows, columns)), dtype)

    def orthonormalize(i: Array, q: Array) -> Array:
        row, before = q[i], jnp.arange(q.shape[0]) < i
        for _ in range(2):
            row = row - jnp.where(before, q @ row, 0.0) @ q
        return q.at[i].set(row / jnp.linalg.norm(row))

    q = jax.lax.fori_loop(0, wide.shape[0], orthonormalize, wide)
    return scale * (q.T if rows >= columns else q).reshape(shape)


def normal(scale: float = 1.0) -> Initializer:
    """Return an initializer: independent normal weights of variance scale^2 / inputs.

    Unlike orthogonal weights they preserve the scale of small observations in a layer with more outputs than inputs.
    Values learned from replay benefit from that at the end of a run: DQN reaches 494 in 250,000 steps of CartPole-v1,
    and 383 with orthogonal weights. In 50,000 steps it reaches 180, after a faster start, and 327 with orthogonal ones.

    Source: He et al. (2015), arXiv:1502.01852, with a scale of sqrt 2.
    """
    return nn.initializers.variance_scaling(scale**2, "fan_in", "normal")


INITIALIZERS: dict[str, Callable[[float], Initializer]] = {"orthogonal": orthogonal, "normal": normal}
