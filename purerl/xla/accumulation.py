"""Gradient accumulation on a CPU: a large batch's gradient is the weighted sum of its parts' gradients.

There a large batch is slow: its activations leave the cache, and their memory is returned to the operating system
after each update and mapped again, page by page, in the next. PPO with minibatches of 16,384 samples through 64 x 64
units ran 1.19 times as fast on one core in parts of 2,048, and 1.06 times on two; Nature's network trained 256
stacks of frames 1.4 times as fast in parts of 32. Elsewhere a batch is not split. Neither is a batch of long vectors,
which no layer makes longer: from Craftax's 1,345 numbers, PPO learned 1.16 times as fast with complete minibatches as
with parts of a megabyte.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from purerl.types import Array, Metrics, PyTree, Rollout
from purerl.xla import backend, switches

PART = 2**14  # most samples of a part of a rollout
SAMPLES = 2**11  # most samples of a part of a minibatch
BYTES = 2**20  # most bytes of the images in a part of a minibatch: 37 stacks of four frames of Atari
IMAGE_SIDE = 36  # pixels, from which on a picture counts as large; smaller ones have small features, too


def rollout_gradient(
    loss: Callable[[PyTree, Rollout], tuple[Array, tuple[Metrics, PyTree]]], params: PyTree, rollout: Rollout
) -> tuple[PyTree, Metrics, PyTree]:
    """Return the gradient of a mean over all samples of a rollout; parts are groups of its sequences.

    Args:
      loss: (params, rollout [T, b]) -> (mean over its samples, (means over them, columns [T, b])).
      params: to differentiate by.
      rollout: [T, B, ...].

    Returns:
      (gradient, means, columns [T, B]).
    """
    length, size = rollout.terminated.shape
    count = _num_parts(size, length * size, PART)
    if count == 1:
        gradient, (means, columns) = jax.grad(loss, has_aux=True)(params, rollout)
        return gradient, means, columns

    parts = jax.tree.map(lambda x: _cut(x, count, 1), rollout._replace(carry=()))
    parts = parts._replace(carry=jax.tree.map(lambda x: _cut(x, count, 0), rollout.carry))
    weights = jax.vmap(_samples)(parts) / jnp.maximum(_samples(rollout), 1.0)
    gradient, means, columns = _over_parts(loss, params, parts, weights)
    return gradient, means, jax.tree.map(lambda x: jnp.moveaxis(x, 0, 2).reshape(length, size), columns)


def minibatch_gradient(
    loss: Callable[[PyTree, PyTree], tuple[Array, Metrics]], params: PyTree, samples: PyTree, mask: Array | None
) -> tuple[PyTree, Metrics]:
    """Return the gradient of a mean over the samples of a minibatch.

    Args:
      loss: (params, samples [n, ...]) -> (mean over them, means over them).
      params: to differentiate by.
      samples: [N, ...].
      mask: bool[N], which samples count; None: all.

    Returns:
      (gradient, means).
    """
    leaves = jax.tree.leaves(samples)
    size = leaves[0].shape[0]
    images = [x for x in leaves if x.ndim >= 4 and min(x.shape[-3:-1]) >= IMAGE_SIDE]
    most = min(SAMPLES, max(1, BYTES // max(1, sum(x.size * x.dtype.itemsize for x in images) // size)))
    count = _num_parts(size, size, most)
    if count == 1:
        return jax.grad(loss, has_aux=True)(params, samples)
    counts = jnp.full(count, size // count) if mask is None else jnp.sum(_cut(mask, count, 0), axis=1)
    weights = counts.astype(jnp.float32) / jnp.maximum(jnp.sum(counts), 1).astype(jnp.float32)

    def of_part(params: PyTree, part: PyTree) -> tuple[Array, tuple[Metrics, PyTree]]:
        mean, means = loss(params, part)
        return mean, (means, ())

    parts = jax.tree.map(lambda x: _cut(x, count, 0), samples)
    return _over_parts(of_part, params, parts, weights)[:2]


def _over_parts(
    loss: Callable[[PyTree, PyTree], tuple[Array, tuple[Metrics, PyTree]]],
    params: PyTree,
    parts: object,
    weights: Array,
) -> tuple[PyTree, Metrics, PyTree]:
    """Return (the weighted sum of the parts' gradients, that of their means, their columns joined)."""

    def add(sums: PyTree, at: tuple[object, Array]) -> tuple[PyTree, PyTree]:
        part, weight = at
        gradient, (means, columns) = jax.grad(loss, has_aux=True)(params, part)
        return jax.tree.map(lambda sum, x: sum + weight * x, sums, (gradient, means)), columns

    means = jax.eval_shape(loss, params, jax.tree.map(lambda x: x[0], parts))[1][0]
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (params, means))
    (gradient, means), columns = jax.lax.scan(add, zeros, (parts, weights))
    return gradient, means, columns


def _cut(x: Array, count: int, axis: int) -> Array:
    """Return the parts of an array along a new leading axis: every count-th entry, so that devices share each part."""
    return jnp.moveaxis(x.reshape(*x.shape[:axis], -1, count, *x.shape[axis + 1 :]), axis + 1, 0)


def _samples(rollout: Rollout) -> Array:
    """Return the number of samples of a rollout that count, f32[]."""
    counts = jnp.ones_like(rollout.terminated) if rollout.mask is None else rollout.mask
    return jnp.sum(counts, dtype=jnp.float32)


def _num_parts(size: int, samples: int, most: int) -> int:
    """Return the fewest equal parts of `size` rows with at most `most` of all `samples` each; 1 except on a CPU."""
    if backend.name() != "cpu" or not switches.is_on("accumulation"):
        return 1
    least = -(-samples // most)
    count = next((n for n in range(least, size + 1) if size % n == 0), 1)
    return count if count <= 8 * least else 1  # not one by one, where there are no divisors
