"""Epsilon-greedy exploration."""

import jax.numpy as jnp
import numpy as np
import pytest

from purerl.functional.exploration import EpsilonGreedy


@pytest.mark.long
def test_epsilon_falls_and_random_actions_are_uniform_over_the_legal_ones(key):
    explore = EpsilonGreedy(start=1.0, end=0.2, steps=100.0)
    assert [round(float(explore.epsilon(jnp.float32(t))), 3) for t in (0, 50, 100, 10_000)] == [1.0, 0.6, 0.2, 0.2]
    q = jnp.broadcast_to(jnp.array([1.0, 5.0, 3.0, 9.0]), (20_000, 4))
    mask = jnp.broadcast_to(jnp.array([True, False, True, True]), q.shape)
    mask = mask.at[:, 3].set(False)
    for steps, best in ((0, 0.5), (200, 0.9)):
        counts = np.bincount(explore(key, q, mask, jnp.float32(steps)), minlength=4) / 20_000
        assert np.allclose(counts, [1 - best, 0, best, 0], atol=0.02)
