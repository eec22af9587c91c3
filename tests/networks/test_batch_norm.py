"""Batch renormalization by hand, and critics that have it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.networks.batch_norm import EPSILON, LARGEST_RATIO, LARGEST_SHIFT, BatchRenorm, normed_critics
from purerl.networks.encoder import NetworkConfig
from purerl.spaces import Box

WARMUP = 40
X = np.random.default_rng(0).normal(loc=2.0, scale=3.0, size=(16, 4)).astype(np.float32)
PARAMS = {"scale": jnp.array([1.0, 2.0, 0.5, 1.0]), "bias": jnp.array([0.0, 1.0, 0.0, -1.0])}


def stats(batches, mean=1.0, variance=4.0):
    return {"mean": jnp.full(4, mean), "variance": jnp.full(4, variance), "batches": jnp.float32(batches)}


def run(given, train, step=0.1):
    return BatchRenorm().apply(
        {"params": PARAMS, "batch_stats": given}, jnp.asarray(X), train, step, WARMUP, mutable=["batch_stats"]
    )


def affine(x):
    return x * np.asarray(PARAMS["scale"]) + np.asarray(PARAMS["bias"])


def test_outside_training_the_running_statistics_standardize():
    y, changed = run(stats(0), False)
    np.testing.assert_allclose(y, affine((X - 1.0) / np.sqrt(4.0 + EPSILON)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(changed["batch_stats"]["mean"], 1.0)


def test_at_first_the_batchs_own_do_and_the_running_ones_follow():
    y, changed = run(stats(0), True)
    standard = (X - X.mean(axis=0)) / np.sqrt(X.var(axis=0) + EPSILON)
    np.testing.assert_allclose(y, affine(standard), rtol=1e-4, atol=1e-5)
    after = changed["batch_stats"]
    np.testing.assert_allclose(after["mean"], 1.0 + 0.1 * (X.mean(axis=0) - 1.0), rtol=1e-5)
    np.testing.assert_allclose(after["variance"], 4.0 + 0.1 * (X.var(axis=0) - 4.0), rtol=1e-5)
    assert float(after["batches"]) == 1.0


def test_later_the_output_is_that_of_the_running_statistics_within_bounds():
    y, _ = run(stats(WARMUP), True)  # within the bounds here
    np.testing.assert_allclose(y, affine((X - 1.0) / np.sqrt(4.0 + EPSILON)), rtol=1e-4, atol=1e-4)
    y, _ = run(stats(WARMUP, mean=-1e3, variance=1e-2), True)  # far outside
    standard = (X - X.mean(axis=0)) / np.sqrt(X.var(axis=0) + EPSILON)
    np.testing.assert_allclose(y, affine(standard * LARGEST_RATIO + LARGEST_SHIFT), rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_critics_have_parameters_and_statistics_of_their_own(key):
    space = Box(low=-1.0, high=1.0, shape=(3,))
    critics = normed_critics(space, 2, NetworkConfig(activation="relu"), hidden_sizes=(8, 8), num=2)
    params, state = critics.init(key)
    observation, action = jnp.ones((16, 3)) * jnp.arange(16.0)[:, None], jnp.zeros((16, 2))
    values, after = critics.train(params, state, observation, action, step=0.5)
    assert values.shape == (2, 16) and not np.allclose(values[0], values[1])
    np.testing.assert_allclose(after[0]["BatchRenorm_0"]["mean"][2:], 0.5 * 7.5, rtol=1e-5)  # action first
    calm = critics.apply(params, after, observation, action)
    assert not np.allclose(calm, values)
    alone = critics.apply(params, after, observation[:1], action[:1])  # by running statistics a sample stands alone
    np.testing.assert_allclose(alone[:, 0], calm[:, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_gradients_flow_through_the_batchs_statistics(key):
    """A shift of the whole batch changes nothing, so the gradient along it is 0."""
    total = lambda shift: jnp.sum(
        BatchRenorm().apply(
            {"params": PARAMS, "batch_stats": stats(0)},
            jnp.asarray(X) + shift,
            True,
            0.1,
            WARMUP,
            mutable=["batch_stats"],
        )[0]
        ** 2
    )
    assert abs(float(jax.grad(total)(jnp.float32(0.5)))) < 1e-2


def test_rows_that_do_not_count_change_no_statistic():
    counted = np.arange(16) < 10
    apply = lambda x, counted: BatchRenorm().apply(
        {"params": PARAMS, "batch_stats": stats(0)}, jnp.asarray(x), True, 0.1, WARMUP, counted, mutable=["batch_stats"]
    )
    y, changed = apply(np.where(counted[:, None], X, 100.0), jnp.asarray(counted))
    alone, expected = apply(X[:10], None)
    np.testing.assert_allclose(y[:10], alone, rtol=1e-4, atol=1e-5)
    for name in ("mean", "variance"):
        np.testing.assert_allclose(changed["batch_stats"][name], expected["batch_stats"][name], rtol=1e-5)
