"""Running statistics against NumPy over all the data at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.functional.normalize import ReturnScale, RunningStatistics, denormalized_values, normalized_values
from purerl.spaces import Box, Dict

STRUCT = {"a": jax.ShapeDtypeStruct((3,), jnp.float32), "b": jax.ShapeDtypeStruct((), jnp.uint8)}


@pytest.fixture(scope="module")
def batches():
    rng = np.random.default_rng(0)
    scales = ((1, 0), (5, 100), (0.1, -3))
    return [
        {"a": (s * rng.normal(size=(t, 4, 3)) + m).astype(np.float32), "b": rng.integers(0, 255, (t, 4), np.uint8)}
        for t, (s, m) in zip((10, 1, 25), scales, strict=True)
    ]


def test_mean_and_variance_of_everything_seen(batches):
    statistics = RunningStatistics.create(STRUCT)
    for batch in batches:
        statistics = jax.jit(RunningStatistics.update)(statistics, batch)
    everything = {name: np.concatenate([batch[name] for batch in batches]).astype(np.float64) for name in STRUCT}
    assert round(float(statistics.samples)) == 36 * 4
    for name, values in everything.items():
        np.testing.assert_allclose(statistics.mean[name], values.mean((0, 1)), rtol=1e-4)
        np.testing.assert_allclose(statistics.variance[name], values.var((0, 1)), rtol=1e-4)
        expected = np.clip((values - values.mean((0, 1))) / values.std((0, 1)), -10, 10)
        last = statistics.normalize(batches[-1])[name]
        assert last.dtype == jnp.float32
        np.testing.assert_allclose(last, expected[-25:], rtol=1e-3, atol=1e-3)


def test_before_anything_was_seen_nothing_changes():
    value = {"a": jnp.array([1.0, -2.0, 3.0]), "b": jnp.uint8(3)}
    seen = RunningStatistics.create(STRUCT).normalize(value)
    np.testing.assert_allclose(seen["a"], value["a"], rtol=1e-6)
    assert seen["b"] == 3.0


def test_clipped_to_the_limit():
    statistics = RunningStatistics.create(jax.ShapeDtypeStruct((), jnp.float32))
    np.testing.assert_array_equal(statistics.normalize(jnp.array([1e3, -1e3]), limit=5.0), [5.0, -5.0])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "float32"])
def test_masks_of_any_dtype_stay(dtype):
    flags = Box(low=0, high=1, shape=(3,), dtype=jnp.dtype(dtype))
    space = Dict(spaces={"observation": Box(low=-1.0, high=1.0, shape=(2,)), "action_mask": flags})
    statistics = RunningStatistics.create(space.struct)
    mask = jnp.array([[True, False, True], [True, False, False]]).astype(dtype)
    batch = {"observation": jnp.array([[0.0, 4.0], [2.0, 0.0]]), "action_mask": mask}
    seen = statistics.update(batch).normalize(batch)
    np.testing.assert_array_equal(seen["action_mask"], mask)
    assert seen["action_mask"].dtype == mask.dtype
    np.testing.assert_allclose(seen["observation"], [[-1, 1], [1, -1]], atol=1e-3)


def test_rewards_are_divided_by_the_spread_of_returns():
    rng = np.random.default_rng(1)
    reward = rng.normal(size=(2, 30, 5)).astype(np.float32) * 7
    done = rng.random((2, 30, 5)) < 0.2
    scale = ReturnScale.create(5)
    discounted, seen = np.zeros(5), []
    for part in range(2):
        scale = scale.update(jnp.asarray(reward[part]), jnp.asarray(done[part]), 0.9)
        for t in range(30):
            discounted = 0.9 * discounted + reward[part, t]
            seen.append(discounted)
            discounted = np.where(done[part, t], 0, discounted)
    np.testing.assert_allclose(scale.discounted, discounted, rtol=1e-4)
    np.testing.assert_allclose(scale.statistics.variance, np.var(seen), rtol=1e-4)
    expected = np.clip(reward[1] / np.std(seen), -10, 10)  # scaled, never shifted: signs stay
    np.testing.assert_allclose(scale.normalize(jnp.asarray(reward[1])), expected, rtol=1e-3)


@pytest.mark.long
def test_statistics_under_a_mask_are_those_of_what_counts(key):
    """Three batches of which about half counts: mean and variance of those samples in NumPy, and how many they were."""
    statistics = RunningStatistics.create(jax.ShapeDtypeStruct((2,), jnp.float32))
    batches = [(i + 1) * jax.random.normal(jax.random.fold_in(key, i), (6, 5, 2)) + 10.0 * i for i in range(3)]
    masks = [jax.random.bernoulli(jax.random.fold_in(key, 9 + i), 0.5, (6, 5)) for i in range(3)]
    for batch, mask in zip(batches, masks, strict=True):
        statistics = statistics.update(batch, mask)
    counted = np.concatenate([np.asarray(b)[np.asarray(m)] for b, m in zip(batches, masks, strict=True)])
    assert float(statistics.samples) == len(counted)
    np.testing.assert_allclose(statistics.mean, counted.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(statistics.variance, counted.var(axis=0), rtol=1e-4)


@pytest.mark.long_for("16.0-4.0", "1e-06-0.1")
@pytest.mark.parametrize(("variance", "std"), [(16.0, 4.0), (1e-6, 0.1)])
def test_values_there_and_back(variance, std):
    statistics = RunningStatistics(samples=jnp.float32(3), mean=jnp.float32(5), variance=jnp.float32(variance))
    values = jnp.array([-100.0, 5.0, 9.0])
    there = normalized_values(statistics, values)
    np.testing.assert_allclose(there, (np.array([-100.0, 5.0, 9.0]) - 5) / std, rtol=1e-6)
    np.testing.assert_allclose(denormalized_values(statistics, there), values, rtol=1e-6)
    assert normalized_values(None, values) is values is denormalized_values(None, values)
