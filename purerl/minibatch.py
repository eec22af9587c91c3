"""Minibatches: several shuffled passes over the samples of a rollout."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.types import Array, Key, Metrics, PyTree


def permutation(key: Key, size: int) -> Array:
    """Return i32[size], a random permutation.

    One sort of one operand: each word holds random high bits and its index in the low bits, which is far cheaper than
    sorting pairs. Words with equal random bits keep their order; with b = 32 - ceil(log2 size) random bits that touches
    a fraction size / 2^(b+1) of neighbours.
    """
    index_bits = max(int(size - 1).bit_length(), 1)
    low = np.uint32((1 << index_bits) - 1)
    words = (jax.random.bits(key, (size,), jnp.uint32) & ~low) | jnp.arange(size, dtype=jnp.uint32)
    return (jnp.sort(words) & low).astype(jnp.int32)


def shuffled_minibatches(
    step: Callable[[Any, PyTree], tuple[Any, Metrics]],
    carry: Any,
    batch: PyTree,
    key: Key,
    num_epochs: int,
    num_minibatches: int,
) -> tuple[Any, Metrics]:
    """Run `step` on every minibatch of every epoch, each epoch in an order of its own.

    Args:
      step: (carry, minibatch [M, ...]) -> (carry, metrics of float32 scalars).
      carry: what the steps pass on.
      batch: samples [N, ...]; N is a multiple of num_minibatches.
      key: for the orders.
      num_epochs: passes over the batch.
      num_minibatches: steps per pass; M = N / num_minibatches.

    Returns:
      (carry, metrics averaged over all steps).
    """
    size = jax.tree.leaves(batch)[0].shape[0]
    orders = jax.vmap(lambda k: permutation(k, size))(jax.random.split(key, num_epochs))
    orders = orders.reshape(num_epochs * num_minibatches, size // num_minibatches)

    def body(state: tuple[Any, Metrics], chosen: Array) -> tuple[tuple[Any, Metrics], None]:
        carry, sums = state
        carry, metrics = step(carry, jax.tree.map(lambda x: jnp.take(x, chosen, axis=0), batch))
        return (carry, jax.tree.map(jnp.add, sums, metrics)), None

    first = jax.tree.map(lambda x: x[: size // num_minibatches], batch)
    zeros = jax.tree.map(lambda m: jnp.zeros(m.shape, m.dtype), jax.eval_shape(step, carry, first)[1])
    (carry, sums), _ = jax.lax.scan(body, (carry, zeros), orders)
    return carry, jax.tree.map(lambda total: total / orders.shape[0], sums)
