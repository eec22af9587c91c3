"""Minibatches: several shuffled passes over the samples of a rollout, or over its sequences."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.devices.sharding import split_data
from purerl.errors import InputError
from purerl.types import Array, Key, Metrics, PyTree
from purerl.xla import backend


def permutation(key: Key, size: int) -> Array:
    """Return i32[size], a random permutation.

    One sort of one operand: each word holds random high bits and its index in the low bits, which is far cheaper than
    sorting pairs. Words with equal random bits keep their order; with b = 32 - ceil(log2 size) random bits that touches
    a fraction size / 2^(b+1) of neighbors.
    """
    index_bits = max(int(size - 1).bit_length(), 1)
    low = np.uint32((1 << index_bits) - 1)
    words = (jax.random.bits(key, (size,), jnp.uint32) & ~low) | jnp.arange(size, dtype=jnp.uint32)
    return (jnp.sort(words) & low).astype(jnp.int32)


def shuffled_minibatches(
    step: Callable[[Any, PyTree], tuple[Any, Metrics]],
    loop_carry: Any,
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

    first = jax.tree.map(lambda x: x[: size // num_minibatches], batch)
    names = sorted(jax.eval_shape(step, loop_carry, first)[1])
    begin, unpack = pack(loop_carry)

    def body(state: tuple[PyTree, Array], chosen: Array) -> tuple[tuple[PyTree, Array], None]:
        packed, sums = state
        minibatch = split_data(jax.tree.map(lambda x: jnp.take(x, chosen, axis=0, mode="clip"), batch))
        loop_carry, metrics = step(unpack(packed), minibatch)
        return (pack(loop_carry)[0], sums + jnp.stack([metrics[name] for name in names])), None

    (packed, sums), _ = jax.lax.scan(body, (begin, jnp.zeros(len(names))), orders)
    return unpack(packed), dict(zip(names, sums / orders.shape[0], strict=True))


def pack(tree: PyTree) -> tuple[PyTree, Callable[[PyTree], PyTree]]:
    """Return (the tree with its arrays of 32 bits as one vector of words, the way back).

    What a loop carries then changes as one array: on a GPU one kernel, where each array would be one. On a CPU the copy
    costs a tenth of PPO's gradient step, so that the tree stays as it is.
    """
    if backend.name() == "cpu":
        return tree, lambda packed: packed
    leaves, structure = jax.tree.flatten(tree)
    fits = [x.dtype in (jnp.float32, jnp.int32) for x in leaves]
    mine = [x for x, fit in zip(leaves, fits, strict=True) if fit]
    others = [x for x, fit in zip(leaves, fits, strict=True) if not fit]
    bounds = np.cumsum([x.size for x in mine])[:-1].tolist()
    words = lambda x, dtype: jax.lax.bitcast_convert_type(x, dtype)

    def unpack(packed: PyTree) -> PyTree:
        parts = zip(jnp.split(packed[0], bounds), mine, strict=True)
        unpacked, rest = (words(part.reshape(x.shape), x.dtype) for part, x in parts), iter(packed[1])
        return jax.tree.unflatten(structure, [next(unpacked) if fit else next(rest) for fit in fits])

    vector = jnp.concatenate([words(x.ravel(), jnp.int32) for x in mine]) if mine else jnp.zeros(0, jnp.int32)
    return (vector, others), unpack


def check_minibatches(config: Any, sequences: bool, what: str) -> None:
    """Hold `config.num_minibatches` to what it must divide: the samples of a rollout, or its sequences.

    Raises:
      InputError: if it does not.
    """
    parts = "num_envs" if sequences else "num_envs x rollout_length"
    size = config.num_envs if sequences else config.steps_per_update
    if size % config.num_minibatches:
        raise InputError(f"{what}: num_minibatches {config.num_minibatches} does not divide {parts} = {size}")


def rollout_minibatches(
    step: Callable[[Any, Any, PyTree], tuple[Any, Metrics]],
    loop_carry: Any,
    batch: Any,
    carry: PyTree,
    key: Key,
    config: Any,
    sequences: bool,
) -> tuple[Any, Metrics]:
    """Run `step` on every minibatch of a rollout, `config.num_minibatches` of them in each of `config.num_epochs`.

    Args:
      step: (carry, minibatch, carry) -> (carry, metrics). The minibatch is [M, ...], M of the T x B samples; or
        [T, M, ...], M of the B sequences whole, with their carry [M, ...].
      carry: what the steps pass on.
      batch: [T, B, ...].
      carry: [B, ...], the recurrent state before the first step; () without one.
      key: for the orders.
      config: the settings.
      sequences: whether sequences stay whole, as a recurrent agent or a trace over time needs them.

    Returns:
      (carry, metrics averaged over all steps).
    """
    shape = (config.steps_per_update,)
    units = swap_time(batch) if sequences else jax.tree.map(lambda x: x.reshape(shape + x.shape[2:]), batch)

    def one(loop_carry: Any, minibatch: tuple[Any, PyTree]) -> tuple[Any, Metrics]:
        units, carry = minibatch
        return step(loop_carry, swap_time(units) if sequences else units, carry)

    return shuffled_minibatches(one, loop_carry, (units, carry), key, config.num_epochs, config.num_minibatches)


def swap_time(tree: PyTree) -> PyTree:
    """Swap the first two axes, [T, B, ...] <-> [B, T, ...]."""
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), tree)
