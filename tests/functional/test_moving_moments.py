"""Moving moments against their definition."""

import jax.numpy as jnp
import numpy as np

from purerl.functional.moving_moments import MovingMoments


def test_moments_are_weighted_means_of_the_batches_that_count():
    random = np.random.default_rng(0)
    batches, moments = random.normal(2.0, 3.0, size=(5, 4, 3)), MovingMoments.create()
    mask = jnp.ones((4, 3), bool).at[1, 2].set(False)
    for batch in batches:
        moments = moments.update(jnp.asarray(batch, jnp.float32), mask)
    weight = 0.99 ** np.arange(5)[::-1]
    weight /= weight.sum()
    counted = batches[:, np.asarray(mask)]
    mean, square = weight @ counted.mean(1), weight @ (counted**2).mean(1)
    found = moments.standardize(jnp.array([1.0, -2.0]))
    np.testing.assert_allclose(found, (np.array([1.0, -2.0]) - mean) / np.sqrt(square - mean**2), rtol=1e-4)
