"""Scores of levels by hand."""

import jax.numpy as jnp
import numpy as np

from purerl.extensions.levels.scores import best_returns, max_monte_carlo, positive_value_loss


def test_best_returns():
    reward = np.array([[1, -1, 2], [2, -1, 0], [0, -1, 5], [1, -1, 9]], np.float32)  # [T, B]
    done = np.array([[0, 0, 1], [1, 0, 0], [1, 0, 1], [0, 0, 0]], bool)
    # episodes 3, 0 and an open one; a single open one; 2, 5 and an open one that is worth more
    np.testing.assert_array_equal(best_returns(jnp.asarray(reward), jnp.asarray(done)), [3, -4, 5])


def test_max_monte_carlo():
    value = np.array([[0.5, 1], [0.25, 3]], np.float32)
    np.testing.assert_allclose(max_monte_carlo(jnp.asarray(value), jnp.array([1.0, 1.0])), [0.625, -1])


def test_positive_value_loss():
    advantage = np.array([[0.5, -1], [-0.25, -3], [1, 6]], np.float32)
    np.testing.assert_allclose(positive_value_loss(jnp.asarray(advantage)), [0.5, 2])
