"""Stacked frames in a replay: each frame is stored once, and a stack is assembled from the rows that hold it.

`Box.stack` marks observations as stacks: k frames concatenated along the last axis, the newest last. At the start of an
episode its first frame replaces the missing ones.
"""

import jax
import jax.numpy as jnp

from purerl.spaces import Box, Dict, Space
from purerl.types import Array, PyTree


def depths(space: Space) -> PyTree:
    """Return the number of frames of each leaf of an observation: a tree of integers, 1 for a leaf without a stack."""
    if isinstance(space, Dict):
        return {name: depths(part) for name, part in space.spaces.items()}
    return jax.tree.map(lambda leaf: space.stack if isinstance(space, Box) else 1, space.struct)


def deepest(depth: PyTree) -> int:
    """Return the largest number of frames of any leaf."""
    return max(jax.tree.leaves(depth), default=1)


def newest(depth: PyTree, observation: PyTree) -> PyTree:
    """Return the stored part of an observation, with any leading axes: the newest frame of a stack."""
    return jax.tree.map(lambda k, x: x if k == 1 else x[..., x.shape[-1] - x.shape[-1] // k :], depth, observation)


def older(depth: PyTree, observation: PyTree) -> PyTree:
    """Return the other frames of stacks, with any leading axes; () for a leaf without a stack."""
    return jax.tree.map(lambda k, x: () if k == 1 else x[..., : x.shape[-1] - x.shape[-1] // k], depth, observation)


def following(depth: PyTree, observation: PyTree, frame: PyTree) -> PyTree:
    """Return the next observations, with any leading axes, whose `newest` part is `frame`."""

    def shift(k: int, x: Array, frame: Array) -> Array:
        return frame if k == 1 else jnp.concatenate([x[..., frame.shape[-1] :], frame], axis=-1)

    return jax.tree.map(shift, depth, observation, frame)


def stored(space: Space) -> PyTree:
    """Return the shapes and dtypes of the stored part of an observation."""
    return jax.eval_shape(lambda tree: newest(depths(space), tree), space.struct)


def assemble(depth: PyTree, frames: PyTree, age: PyTree, index: Array, num_envs: int) -> PyTree:
    """Return the observations at indices.

    Args:
      depth: from `depths`.
      frames: [R, B, ...], the stored parts.
      age: u8[R, B], steps since the episode began, at most k - 1; () if nothing is stacked.
      index: i32[N], row p // B of environment p % B.
      num_envs: B.

    Returns:
      [N, ...]; the first frame of an episode replaces those before it.
    """

    def rows(frames: Array, at: Array) -> Array:
        return jnp.take(jax.lax.collapse(frames, 0, 2), at, axis=0, mode="clip")

    def show(k: int, frames: Array) -> Array:
        if k == 1:
            return rows(frames, index)
        size = frames.shape[0] * num_envs
        back = rows(age, index).astype(jnp.int32)
        ages = [jnp.minimum(back, k - 1 - i) for i in range(k)]  # the oldest frame first
        indices = [index - steps * num_envs for steps in ages]
        return jnp.concatenate([rows(frames, jnp.where(at < 0, at + size, at)) for at in indices], axis=-1)

    return jax.tree.map(show, depth, frames)


def unroll(depth: PyTree, frames: PyTree, before: PyTree, done: Array) -> PyTree:
    """Return the observations of N sequences of T steps.

    Args:
      depth: from `depths`.
      frames: [N, T, ...], the newest frame of each observation.
      before: [N, ...], the `older` frames of each sequence's first observation.
      done: bool[N, T]; an episode starts after an end.

    Returns:
      [N, T, ...].
    """
    num, length = done.shape
    here = jnp.arange(length, dtype=jnp.int32)
    began = jnp.where(jnp.concatenate([jnp.zeros_like(done[:, :1]), done[:, :-1]], axis=1), here, 0)
    began = jax.lax.cummax(began, axis=1)  # the first step of its episode; 0: it starts with the sequence, or before it

    def show(k: int, frames: Array, before: PyTree) -> Array:
        if k == 1:
            return frames
        parts = jnp.moveaxis(before.reshape(*before.shape[:-1], k - 1, -1), -2, 1)
        line = jnp.concatenate([parts, frames], axis=1)  # [N, k - 1 + T, ...]: frame k - 1 is the sequence's first
        earliest = jnp.where(began > 0, began + (k - 1), 0)
        first = jnp.arange(num, dtype=jnp.int32)[:, None] * line.shape[1]
        rows = jax.lax.collapse(line, 0, 2)
        indices = [first + jnp.maximum(here + i, earliest) for i in range(k)]
        return jnp.concatenate([jnp.take(rows, index, axis=0, mode="clip") for index in indices], axis=-1)

    return jax.tree.map(show, depth, frames, before)


def ages(running: Array, done: Array, counts: Array) -> tuple[Array, Array]:
    """Return the ages of episodes, in steps.

    Args:
      running: i32[B], the age of the first step.
      done: bool[T, B].
      counts: bool[T, B], which steps count.

    Returns:
      (age of each step i32[T, B], age of the step to come i32[B]).
    """
    steps = counts.astype(jnp.int32)
    through = jnp.cumsum(steps, axis=0)  # steps up to and with this one
    began = jnp.where(done & counts, through, -running)  # an episode starts after an end
    began = jax.lax.cummax(jnp.concatenate([-running[None], began]), axis=0)
    return through - steps - began[:-1], through[-1] - began[-1]
