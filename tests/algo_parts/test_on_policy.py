"""What agents with a policy and a value function share."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.algo_parts.on_policy import explained_variance


def test_explained_variance_by_hand():
    target = jnp.array([1.0, 2.0, 3.0, 6.0])  # variance 3.5
    assert float(explained_variance(target, target)) == 1.0
    np.testing.assert_allclose(explained_variance(jnp.full(4, 7.0), target), 0.0, atol=1e-6)
    value = jnp.array([1.0, 2.0, 3.0, 2.0])  # errors 0, 0, 0, 4: variance 3
    np.testing.assert_allclose(explained_variance(value, target), 1 - 3 / 3.5, rtol=1e-5)
    assert float(explained_variance(-target, target)) < -1.0  # worse than a constant


def test_explained_variance_of_what_counts(key):
    value, target = jax.random.normal(key, (2, 6, 5))
    mask = jnp.arange(30).reshape(6, 5) % 4 > 0
    part = explained_variance(value[mask], target[mask])
    np.testing.assert_allclose(explained_variance(value, target, mask), part, rtol=1e-4)
    changed = jnp.where(mask, value, 1e3)
    np.testing.assert_allclose(explained_variance(changed, target, mask), part, rtol=1e-4)
