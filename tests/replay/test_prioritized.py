"""Prioritized replay: the sum tree against NumPy, draws, weights, and what update does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from purerl.errors import InputError
from purerl.prng import fast
from purerl.replay import prioritized as prioritized_replay
from purerl.replay import uniform
from purerl.replay.prioritized import NOWHERE, SumTree, prioritized
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(1,)), Discrete(n=3))
SIZE = 1100  # four levels

put = jax.jit(SumTree.set)
draw = jax.jit(SumTree.draw, static_argnums=2)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**31), st.booleans()), min_size=1, max_size=6))
def test_every_sum_is_that_of_its_leaves(writes):
    tree, leaves = SumTree.create(SIZE), np.zeros(SIZE)
    for seed, some_nowhere in writes:
        rng = np.random.default_rng(seed)
        index = rng.choice(SIZE, 40, replace=False)
        value = rng.exponential(size=40).astype(np.float32)
        target = np.where(rng.random(40) < 0.5, NOWHERE, index) if some_nowhere else index
        leaves[target[target < SIZE]] = value[target < SIZE]
        tree = put(tree, jnp.asarray(target, jnp.int32), jnp.asarray(value))
    assert len(tree.levels) == 4
    expected = leaves
    for level in reversed(tree.levels):
        expected = np.pad(expected, (0, level.size - expected.size))
        assert np.allclose(level, expected, rtol=1e-6)
        expected = expected.reshape(-1, prioritized_replay.WIDTH).sum(axis=1)
    assert np.isclose(float(tree.total()), leaves.sum(), rtol=1e-6)


def test_one_index_given_twice_leaves_the_sums_right():
    tree = put(SumTree.create(SIZE), jnp.array([7, 7, 7, 900]), jnp.array([1.0, 2.0, 3.0, 0.5]))
    assert float(tree.at(jnp.array([7]))[0]) in (1.0, 2.0, 3.0)
    assert float(tree.total()) == float(tree.at(jnp.array([7]))[0]) + 0.5


def test_draws_follow_the_priorities():
    """Chi-square over leaves that span four orders of magnitude, many of them zero."""
    rng = np.random.default_rng(1)
    value = 10.0 ** rng.uniform(-3, 1, SIZE) * (rng.random(SIZE) < 0.5)
    tree = put(SumTree.create(SIZE), jnp.arange(SIZE), jnp.asarray(value, jnp.float32))
    num = 400_000
    counts = np.bincount(np.asarray(draw(tree, fast(jax.random.key(2)), num)), minlength=SIZE)
    assert counts[value == 0].sum() == 0
    expected = num * value / value.sum()
    often = expected > 10
    observed = np.append(counts[often], counts[~often].sum())
    assert chisquare(observed, np.append(expected[often], expected[~often].sum())).pvalue > 1e-3


def test_draws_of_a_million_equal_leaves_are_uniform():
    """One float32 for all levels would leave only a few distinct draws per leaf."""
    size = 1_000_000
    tree = put(SumTree.create(size), jnp.arange(size), jnp.full(size, 0.1))
    index = np.asarray(draw(tree, fast(jax.random.key(0)), 1_000_000))
    assert index.max() < size
    hit = np.unique(index).size / size
    assert hit == pytest.approx(1 - np.exp(-1), abs=0.002)
    for low in (index % 32, index // 32 % 32):
        assert chisquare(np.bincount(low, minlength=32)).pvalue > 1e-3


def test_vmapped_trees_equal_single_ones():
    value = jnp.asarray(np.random.default_rng(0).random((3, SIZE)), jnp.float32)
    trees = jax.vmap(lambda v: SumTree.create(SIZE).set(jnp.arange(SIZE), v))(value)
    keys = jax.random.split(fast(jax.random.key(0)), 3)
    together = jax.vmap(lambda tree, key: tree.draw(key, 64))(trees, keys)
    for i in range(3):
        alone = jax.tree.map(lambda x, i=i: x[i], trees)
        assert np.array_equal(together[i], draw(alone, keys[i], 64))


def rollout(length, num_envs, truncated=False, start=0):
    number = start + jnp.arange(length * num_envs, dtype=jnp.float32).reshape(length, num_envs)
    never = jnp.zeros((length, num_envs), bool)
    return Rollout(
        number[..., None],
        jnp.zeros((length, num_envs), jnp.int32),
        number,
        never,
        jnp.full_like(never, truncated),
        number[..., None] + num_envs,
        (),
        (),
    )


def test_weights_by_hand_and_priorities_of_new_steps():
    memory = prioritized(SPEC, 512, 2, 512, exponent=0.5, correction=0.4, correction_steps=16, floor=0.0)
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


def test_final_observations_and_unfinished_steps_do_not_count():
    memory = prioritized(SPEC, 256, 2, 256, n_step=3, exponent=1.0)
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


def test_overwritten_steps_lose_their_priority():
    """Once the ring is full, the priorities left are those of rows where a transition starts."""
    memory = prioritized(SPEC, 20, 2, 16, exponent=1.0)
    state = memory.init()
    for i in range(9):
        state = memory.add(state, rollout(3, 2, truncated=i % 3 == 1, start=10 * i))
        batch = memory.sample(state, jax.random.key(i))
        state = memory.update(state, batch, jnp.arange(16, dtype=jnp.float32))
        starts = np.asarray(state.storage.flag).ravel() != uniform.NO_START
        assert np.array_equal(np.asarray(state.tree.levels[-1])[: starts.size] > 0, starts)


def test_memory_is_stated_and_held_to():
    memory = prioritized(SPEC, 10_000, 10, 16)
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(memory.init()))
    assert held == pytest.approx(prioritized_replay.nbytes(SPEC, 10_000, 10), abs=100)
    with pytest.raises(InputError, match="MB; there are"):
        prioritized(SPEC, 10**12, 10, 16)
