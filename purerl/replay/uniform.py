"""Uniform replay: steps that are stored in arrays and sampled with equal probability, as pure functions."""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.replay import frames
from purerl.replay.base import Replay
from purerl.replay.sizes import check_memory, check_sizes
from purerl.replay.storage import NO_START, Storage, add, create, nbytes, take_rows
from purerl.replay.transitions import Transitions, gather
from purerl.types import Array, EnvironmentSpec, Key, PyTree

TRIES = 4  # random indices per sample; the first at which a transition starts counts


def uniform(
    spec: EnvironmentSpec,
    capacity: int,
    num_envs: int,
    batch_size: int,
    discount: Array | float = 0.99,
    n_step: int = 1,
    between: bool = False,
) -> Replay:
    """Return a replay that samples all its steps with equal probability.

    Args:
      spec: the environment's spaces.
      capacity: steps of all environments together.
      num_envs: B.
      batch_size: transitions per sampled batch.
      discount: per step.
      n_step: steps per transition.
      between: whether to include the observations between the first step of a transition and its last.

    Raises:
      InputError: if it does not fit in memory, or a batch or an n-step transition does not fit in it.
    """
    check(spec, capacity, num_envs, batch_size, n_step)
    depth = stacks(spec)

    def sample(state: Storage, key: Key) -> Transitions:
        index = draw(state, key, batch_size)
        return gather(state, index, 1.0, discount, n_step=n_step, depth=depth, between=between)

    return Replay(
        init=lambda: create(spec, capacity, num_envs),
        add=lambda state, rollout: add(state, rollout, depth),
        sample=sample,
        update=lambda state, batch, priority: state,
    )


def draw(state: Storage, key: Key, batch_size: int) -> Array:
    """Sample indices uniformly, with replacement, in time and memory of O(batch_size).

    An index at which no transition starts is sampled again, at most `TRIES` times in all; the last one stays.

    Returns:
      i32[batch_size].
    """
    span = (state.filled * state.flag.shape[1]).astype(jnp.uint32)
    words = jax.random.bits(key, (TRIES, batch_size), jnp.uint32)
    index = scaled(words, span).astype(jnp.int32)
    attempt = jnp.arange(TRIES, dtype=jnp.int32)[:, None]
    rank = jnp.where(take_rows(state.flag, index) != NO_START, attempt, 2 * TRIES - attempt)
    # A reduction, because it is computed once. Selections would be computed again, random words included, for every
    # array that is read at these indices, nine times as slow on a CPU.
    return jax.lax.reduce((rank, index), (np.int32(2 * TRIES), np.int32(0)), _lower, (0,))[1]


def _lower(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the (rank, index) with the lower rank, elementwise."""
    take = one[0] <= other[0]
    return jnp.where(take, one[0], other[0]), jnp.where(take, one[1], other[1])


def scaled(words: Array, n: Array) -> Array:
    """Return floor(words n / 2^32), uint32: uniform words become uniform integers below n, without a division."""
    low, half = np.uint32(0xFFFF), np.uint32(16)
    a, b, c, d = words >> half, words & low, n >> half, n & low
    middle = a * d + ((b * d) >> half)
    return a * c + (middle >> half) + ((b * c + (middle & low)) >> half)


def stacks(spec: EnvironmentSpec) -> PyTree:
    """Return `frames.depths` of the observations, or None if nothing is stacked."""
    depth = frames.depths(spec.observation_space)
    return depth if frames.deepest(depth) > 1 else None


def check(
    spec: EnvironmentSpec, capacity: int, num_envs: int, batch_size: int, n_step: int, *, needed: int | None = None
) -> None:
    """Check the sizes of a replay against one another and the memory; `needed` bytes, or `nbytes` by default.

    Raises:
      InputError: with the size and what is allowed.
    """
    check_sizes(capacity, num_envs, batch_size, n_step)
    check_memory(needed or nbytes(spec, capacity, num_envs), capacity)


_EARLIER = {  # names of this module before it became several
    "storage": ("GOING", "TERMINATED", "TRUNCATED", "num_rows", "write"),
    "transitions": ("Between",),
}


def __getattr__(name: str) -> Any:
    for module, names in _EARLIER.items():
        if name in names:
            return getattr(importlib.import_module(f"purerl.replay.{module}"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
