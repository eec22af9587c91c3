"""Transitions of up to n steps, assembled from the rows of a storage."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.replay import frames
from purerl.replay.storage import GOING, NO_START, TERMINATED, Storage, take_rows
from purerl.types import Array, PyTree


class Between(NamedTuple):
    """The steps between the first and the last step of N transitions."""

    observation: PyTree  # [n - 1, N, ...], before each step after the first
    discount: Array  # f32[n - 1, N], discount^k of the k-th of them; 0 if the episode ended before


class Transitions(NamedTuple):
    """N sampled transitions, each of up to n steps."""

    observation: PyTree  # [N, ...]
    action: PyTree  # [N, ...]
    reward: Array  # f32[N], the discounted sum of the rewards of its steps
    discount: Array  # f32[N], of the value of `next_observation`: discount^steps, 0 after a termination
    next_observation: PyTree  # [N, ...], after its last step; the final observation if the episode ended there
    weight: Array  # f32[N], of its loss; 0 if no transition starts at the sampled index
    start: Array  # i32[N], the index of its first step
    between: Between | None = None  # if requested and n > 1


def gather(
    state: Storage,
    index: Array,
    weight: Array | float,
    discount: Array | float,
    n_step: int = 1,
    *,
    depth: PyTree = None,
    between: bool = False,
) -> Transitions:
    r"""Assemble the transitions that start at given indices.

        reward = sum_{k < m} discount^k r_{t+k};  discount = discount^m (1 - terminated_{t+m-1})

    with m = n_step, or less if the episode ended before; the next observation comes from the last of the m steps.

    Args:
      state: the storage.
      index: i32[N], the starts.
      weight: f32[N] or a scalar; a transition's is 0 if none starts there or its last steps are not stored yet.
      discount: per step.
      n_step: the most steps of a transition.
      depth: which observations are stacks, see `frames.depths`; None: none.
      between: whether to include the observations between the first step and the last.
    """
    rows, num_envs = state.flag.shape
    step = lambda at: jnp.where(at >= (rows - 1) * num_envs, at - (rows - 1) * num_envs, at + num_envs)
    last, flag, reward = index, take_rows(state.flag, index), take_rows(state.reward, index)
    factor, after = jnp.full(index.shape, discount, jnp.float32), []
    for _ in range(n_step - 1):
        going = flag == GOING
        last = jnp.where(going, step(last), last)
        after.append((last, jnp.where(going, factor, 0.0)))
        flag = take_rows(state.flag, last)
        reward = reward + jnp.where(going, factor * take_rows(state.reward, last), 0.0)
        factor = jnp.where(going, factor * discount, factor)
    return Transitions(
        observation=observations(state, index, depth),
        action=jax.tree.map(lambda xs: take_rows(xs, index), state.action),
        reward=reward,
        discount=jnp.where(flag == TERMINATED, 0.0, factor),
        next_observation=observations(state, step(last), depth),
        weight=jnp.where(flag == NO_START, 0.0, weight),
        start=index,
        between=_between(state, after, depth) if between and after else None,
    )


def _between(state: Storage, after: list[tuple[Array, Array]], depth: PyTree) -> Between:
    """Return the observations at the indices i32[N] after the first, with their discounts f32[N]."""
    index, discount = (jnp.stack(parts) for parts in zip(*after, strict=True))
    return Between(observations(state, index, depth), discount)


def observations(state: Storage, index: Array, depth: PyTree = None) -> PyTree:
    """Return the observations at indices i32[...]: [..., *shape], with all the frames of stacks.

    Args:
      state: the storage.
      index: i32[...].
      depth: which observations are stacks, see `frames.depths`; None: none.
    """
    if depth is None:
        return jax.tree.map(lambda xs: take_rows(xs, index), state.observation)
    num_envs = state.flag.shape[1]
    stacks = frames.assemble(depth, state.observation, state.age, index.reshape(-1), num_envs)
    return jax.tree.map(lambda x: x.reshape(*index.shape, *x.shape[1:]), stacks)
