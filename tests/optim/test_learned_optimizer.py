"""OPEN's learned optimizer: its size and its start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.evolution.method import flatten
from purerl.optim.learned_optimizer import OPEN
from purerl.optim.optimizers import GradientPlan

KEY = jax.random.key(0)


@pytest.mark.long
def test_open_has_the_published_size_and_starts_still():
    optimizer = OPEN.create(KEY)
    assert sum(leaf.size for leaf in jax.tree.leaves(optimizer)) == 1211
    tx = optimizer(GradientPlan(1e-3, 0.5, 100.0, 4))
    params = {"w": jnp.ones((3, 2)), "b": jnp.zeros(2)}
    state = tx.init(params)
    gradient = {"w": jnp.full((3, 2), 1e-20), "b": jnp.array([0.0, -1e20])}
    updates, state = jax.jit(tx.update)(gradient, state, params)
    assert not any(leaf.any() for leaf in jax.tree.leaves(updates)) and int(state.steps) == 1
    other = flatten(optimizer)[1](flatten(optimizer)[0] + 0.1)
    updates, _ = jax.jit(other(GradientPlan(1e-3, 0.5, 100.0, 4)).update)(gradient, state, params)
    assert all(np.isfinite(leaf).all() and leaf.all() for leaf in jax.tree.leaves(updates))
