"""Prioritized replay: weights, the priorities of new and overwritten steps, and what update does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from purerl.errors import InputError
from purerl.replay import prioritized as prioritized_replay
from purerl.replay.prioritized import prioritized
from purerl.replay.storage import NO_START
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout
from tests.helpers.compiled import each_compiled

SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(1,)), Discrete(n=3))


def rollout(length, num_envs, truncated=False, start=0):
    number = start + jnp.arange(length * num_envs, dtype=jnp.float32).reshape(length, num_envs)
    never = jnp.zeros((length, num_envs), bool)
    return Rollout(
        observation=number[..., None],
        action=jnp.zeros((length, num_envs), jnp.int32),
        reward=number,
        terminated=never,
        truncated=jnp.full_like(never, truncated),
        next_observation=number[..., None] + num_envs,
        carry=(),
        extras=(),
    )


@pytest.mark.long
def test_weights_by_hand_and_priorities_of_new_steps():
    memory = each_compiled(prioritized(SPEC, 512, 2, 512, exponent=0.5, correction=0.4, correction_steps=16, floor=0.0))
    state = memory.add(memory.init(), rollout(4, 2))
    first = memory.sample(state, jax.random.key(0))
    assert set(np.asarray(first.reward)) == set(range(8)) and np.allclose(first.weight, 1.0)
    errors = jnp.asarray([1.0, 4.0, 9.0, 16.0, 25.0, 36.0, 49.0, 64.0])
    state = memory.update(state, first, errors[first.reward.astype(jnp.int32)])
    batch = memory.sample(state, jax.random.key(1))
    # p^0.5 = 1 .. 8, beta = 0.4 + 0.6 * 8 / 16 = 0.7; the largest weight is that of the smallest drawn.
    root = np.asarray(batch.reward) + 1.0
    assert np.allclose(batch.weight, (root / root.min()) ** -0.7, rtol=1e-5)
    assert chisquare(np.bincount(root.astype(int))[1:], 512 * np.arange(1, 9) / 36).pvalue > 1e-3
    state = memory.add(state, rollout(1, 2, start=8))
    assert np.allclose(state.tree.at(jnp.arange(8, 10)), 8.0)


@pytest.mark.long
def test_final_observations_and_unfinished_steps_do_not_count():
    memory = each_compiled(prioritized(SPEC, 256, 2, 256, n_step=3, exponent=1.0))
    state = memory.add(memory.init(), rollout(4, 2, truncated=True))
    state = memory.add(state, rollout(4, 2, start=100))
    batch = memory.sample(state, jax.random.key(0))
    places, reward = np.asarray(batch.start), np.asarray(batch.observation)[:, 0]
    assert np.all((reward < 8) | (reward >= 100))
    rows = places // 2
    assert not np.any(np.isin(rows, [1, 3, 5, 7])), "where a final observation lies"
    unfinished = rows >= 10
    assert np.array_equal(np.asarray(batch.weight) == 0.0, unfinished) and unfinished.any()
    state = memory.update(state, batch, jnp.full(256, 50.0))
    assert np.allclose(state.tree.at(jnp.array([20, 21, 22, 23])), 1.0), "kept until they are finished"


@pytest.mark.long
def test_overwritten_steps_lose_their_priority():
    """Once the ring is full, the priorities left are those of rows where a transition starts."""
    memory = each_compiled(prioritized(SPEC, 20, 2, 16, exponent=1.0))
    state = memory.init()
    for i in range(9):
        state = memory.add(state, rollout(3, 2, truncated=i % 3 == 1, start=10 * i))
        batch = memory.sample(state, jax.random.key(i))
        state = memory.update(state, batch, jnp.arange(16, dtype=jnp.float32))
        starts = np.asarray(state.storage.flag).ravel() != NO_START
        assert np.array_equal(np.asarray(state.tree.levels[-1])[: starts.size] > 0, starts)


@pytest.mark.long
def test_memory_is_stated_and_held_to():
    memory = prioritized(SPEC, 10_000, 10, 16)
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(memory.init()))
    assert held == pytest.approx(prioritized_replay.nbytes(SPEC, 10_000, 10), abs=100)
    with pytest.raises(InputError, match="MB; there are"):
        prioritized(SPEC, 10**12, 10, 16)
