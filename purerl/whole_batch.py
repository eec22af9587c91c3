"""One gradient of a whole rollout, whatever its size."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from purerl import backend
from purerl.types import Array, Metrics, PyTree, Rollout

PART = 2**14  # samples whose activations are held together on a CPU


def mean_gradient(
    loss: Callable[[PyTree, Rollout], tuple[Array, tuple[Metrics, PyTree]]], params: PyTree, rollout: Rollout
) -> tuple[PyTree, Metrics, PyTree]:
    """Return the gradient of a mean over all samples of a rollout, on a CPU some of its sequences at a time.

    There a large batch is slow: its activations leave the cache, and the memory that they take is given back to the
    kernel after each update, which clears every page anew in the next.

    Args:
      loss: (params, rollout [T, b]) -> (mean of its samples, (means of them, columns [T, b])).
      params: to differentiate by.
      rollout: [T, B, ...].

    Returns:
      (gradient, means, columns [T, B]).
    """
    length, size = rollout.terminated.shape
    count = _parts(length, size) if backend.name() == "cpu" else 1
    if count == 1:
        gradient, (means, columns) = jax.grad(loss, has_aux=True)(params, rollout)
        return gradient, means, columns

    def cut(x: Array, axis: int) -> Array:  # every count-th sequence, so that each device has its share of a part
        return jnp.moveaxis(x.reshape(*x.shape[:axis], size // count, count, *x.shape[axis + 1 :]), axis + 1, 0)

    parts = jax.tree.map(lambda x: cut(x, 1), rollout._replace(memory=()))
    parts = parts._replace(memory=jax.tree.map(lambda x: cut(x, 0), rollout.memory))
    total = _samples(rollout)

    def add(sums: PyTree, part: Rollout) -> tuple[PyTree, PyTree]:
        gradient, (means, columns) = jax.grad(loss, has_aux=True)(params, part)
        weight = _samples(part) / jnp.maximum(total, 1.0)
        return jax.tree.map(lambda sum, x: sum + weight * x, sums, (gradient, means)), columns

    means = jax.eval_shape(loss, params, jax.tree.map(lambda x: x[0], parts))[1][0]
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (params, means))
    (gradient, means), columns = jax.lax.scan(add, nothing, parts)
    return gradient, means, jax.tree.map(lambda x: jnp.moveaxis(x, 0, 2).reshape(length, size), columns)


def _samples(rollout: Rollout) -> Array:
    """Return f32[]: how many samples of a rollout count."""
    chosen = jnp.ones_like(rollout.terminated) if rollout.mask is None else rollout.mask
    return jnp.sum(chosen, dtype=jnp.float32)


def _parts(length: int, size: int) -> int:
    """Return into how many parts of as many sequences each a rollout is cut: the fewest of `PART` samples at most."""
    least = -(-length * size // PART)
    count = next((n for n in range(least, size + 1) if size % n == 0), 1)
    return count if count <= 8 * least else 1  # not one by one, where the number of sequences has no divisors
