"""The sum tree against NumPy: sums, and samples in proportion to the leaves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from purerl.prng import fast
from purerl.replay.sum_tree import NOWHERE, WIDTH, SumTree

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
        expected = expected.reshape(-1, WIDTH).sum(axis=1)
    assert np.isclose(float(tree.total()), leaves.sum(), rtol=1e-6)


def test_one_index_given_twice_leaves_the_sums_right():
    tree = put(SumTree.create(SIZE), jnp.array([7, 7, 7, 900]), jnp.array([1.0, 2.0, 3.0, 0.5]))
    assert float(tree.at(jnp.array([7]))[0]) in (1.0, 2.0, 3.0)
    assert float(tree.total()) == float(tree.at(jnp.array([7]))[0]) + 0.5


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_vmapped_trees_equal_single_ones():
    value = jnp.asarray(np.random.default_rng(0).random((3, SIZE)), jnp.float32)
    trees = jax.vmap(lambda v: SumTree.create(SIZE).set(jnp.arange(SIZE), v))(value)
    keys = jax.random.split(fast(jax.random.key(0)), 3)
    together = jax.vmap(lambda tree, key: tree.draw(key, 64))(trees, keys)
    for i in range(3):
        alone = jax.tree.map(lambda x, i=i: x[i], trees)
        assert np.array_equal(together[i], draw(alone, keys[i], 64))
