"""Drifts against published values, and the properties that make a function a drift."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerl.functional.drifts import DPO, LPO, KLPenalty, RecoveryDrift, SquaredDrift, valid
from purerl.functional.objectives import (
    Drifting,
)
from tests.helpers.losses import DRIFTS, KEY, POINTS, loss_and_gradient, moved


@jax.jit
def parameter_gradient(drift, log_ratio, advantage):
    return jax.grad(lambda d: jnp.sum(d(log_ratio, advantage, {})))(drift)


GOLDEN = [  # (r, A) -> D, d(r A - D)/dr; computed once in float64 from the paper's equations
    (1.5, 2.0, 0.07576567, 1.57289541),
    (0.5, -2.0, 0.79799092, 1.84556580),
    (3.0, 1.0, 0.47681165, 0.41997433),
    (1.2, 1.0, 0.00066403, 0.99006629),
    (0.8, -1.0, 0.00974897, -0.84188467),
    (1.5, -2.0, 0.0, -2.0),
    (0.5, 2.0, 0.0, 2.0),
]


@pytest.mark.parametrize(("ratio", "advantage", "drift", "slope"), GOLDEN)
def test_dpo_golden_values(ratio, advantage, drift, slope):
    log_ratio, a = np.float32(np.log(ratio)), np.float32(advantage)
    np.testing.assert_allclose(DPO()(log_ratio[None], a[None], {})[0], drift, atol=1e-6)
    gradient = loss_and_gradient(Drifting(drift=DPO()), log_ratio[None], a[None])[1][0]
    np.testing.assert_allclose(-gradient / ratio, slope, rtol=1e-5)  # d/dr = (d/dlog r) / r


@pytest.mark.parametrize("name", DRIFTS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.0, 0.1, 1.0]))
def test_a_drift_is_never_negative_and_flat_at_ratio_one(name, seed, scale):
    drift = moved(DRIFTS[name], seed, scale)
    rng = np.random.default_rng(seed)
    log_ratio = np.r_[np.zeros(32), rng.normal(0, 1, 96)].astype(np.float32)
    advantage = rng.normal(0, 2, 128).astype(np.float32)
    if name == "kl" and float(drift.coefficient) < 0:
        drift = KLPenalty(coefficient=-drift.coefficient)
    if name == "recovery":
        drift = jax.tree.map(jnp.abs, drift)
    if name in ("clip", "squared"):
        drift = type(drift)(epsilon=abs(drift.epsilon) + 0.01)
    value, gradient = loss_and_gradient(drift, log_ratio, advantage)
    assert (value >= 0).all() and np.isfinite(gradient).all()
    np.testing.assert_array_equal(value[:32], 0.0)
    np.testing.assert_array_equal(gradient[:32], 0.0)


@pytest.mark.parametrize("name", DRIFTS)
def test_gradients_stay_finite_for_extreme_ratios(name):
    log_ratio = np.linspace(-200, 200, 801, dtype=np.float32)
    for advantage in (-3.0, -1e-3, 0.0, 1e-3, 3.0):
        loss, gradient = loss_and_gradient(Drifting(drift=DRIFTS[name]), log_ratio, np.full(801, advantage, np.float32))
        assert np.isfinite(loss).all() and np.isfinite(gradient).all()
        slopes = parameter_gradient(DRIFTS[name], log_ratio, np.full(801, advantage, np.float32))
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


def test_lpo_starts_where_it_says():
    at_ppo, clip, nothing = (DRIFTS[name](*POINTS, {}) for name in ("lpo at ppo", "clip", "lpo from nothing"))
    np.testing.assert_allclose(at_ppo, np.maximum(clip - 1e-4, 0), atol=1e-7)
    np.testing.assert_array_equal(nothing, 0.0)
    assert sum(leaf.size for leaf in jax.tree.leaves(LPO.at_ppo(KEY))) == 1152


def test_the_network_is_that_of_the_paper():
    """x = [d, A d], d = [log r, (log r)^2, 1 - r, (1 - r)^2]; one hidden tanh layer; no biases."""
    network = DRIFTS["learned"].network
    d, a = (x.astype(np.float64) for x in POINTS)
    near = np.stack([d, d**2, 1 - np.exp(d), (1 - np.exp(d)) ** 2], -1)
    hidden = np.tanh(np.concatenate([near, a[:, None] * near], -1) @ np.asarray(network.hidden, np.float64))
    np.testing.assert_allclose(network(*POINTS, {}), hidden @ np.asarray(network.output, np.float64), atol=2e-5)


def test_the_first_antithetic_pair_differs():
    """With all weights at 0 the two of a pair are the same function, and an evolution sees nothing."""
    drift = DRIFTS["lpo from nothing"]
    plus, minus = (moved(drift, 3, scale)(*POINTS, {}) for scale in (0.05, -0.05))
    assert np.abs(plus - minus).max() > 0.01
    zero = jax.tree.map(jnp.zeros_like, drift)
    np.testing.assert_array_equal(moved(zero, 3, 0.05)(*POINTS, {}), moved(zero, 3, -0.05)(*POINTS, {}))


@pytest.mark.parametrize("log_ratio", [-1.0, -0.02, 0.0, 0.02, 1.0, 3.0])
def test_the_slope_of_the_kl_penalty_where_its_pieces_meet(log_ratio):
    """D = r - 1 - log r, so dD / d log r = r - 1."""
    drift = lambda x: KLPenalty()(x[None], jnp.ones(1), {})[0]
    np.testing.assert_allclose(jax.grad(drift)(jnp.float32(log_ratio)), np.expm1(log_ratio), rtol=1e-3, atol=1e-7)


def test_valid_has_a_live_first_gradient():
    """Where LPO's relu is shut at the start, `valid` learns from the first step."""
    shut, alive = (
        parameter_gradient(d, *POINTS) for d in (DRIFTS["lpo from nothing"], valid(DRIFTS["lpo from nothing"].network))
    )
    assert not np.any(shut.network.output)
    assert np.abs(alive.function.output).max() > 1.0


def test_kl_penalty_near_one_has_no_cancellation():
    log_ratio = np.array([1e-4, -1e-3, 0.0199, 0.0201, -0.5, 0.999, 1.001, 3.0], np.float32)
    exact = np.exp(log_ratio.astype(np.float64)) - 1 - log_ratio
    np.testing.assert_allclose(KLPenalty()(log_ratio, np.ones_like(log_ratio), {}), exact, rtol=1e-4)


def test_good_actions_that_became_less_likely_recover_faster():
    """By hand, with r = 1/2 in the first and third place: d(r A - D)/dr = A (1 + (slope + 2 curvature log 2) / r)."""
    drift = RecoveryDrift(slope=0.5, curvature=1.5)
    log_ratio = np.log(np.array([0.5, 2.0, 0.5, 2.0], np.float32))
    advantage, fallen = np.array([2.0, 2.0, -2.0, -2.0], np.float32), np.log(2.0)
    np.testing.assert_allclose(
        drift(log_ratio, advantage, {}), [2.0 * (0.5 * fallen + 1.5 * fallen**2), 0.0, 0.0, 0.0], rtol=1e-5
    )
    slope = -loss_and_gradient(Drifting(drift=drift), log_ratio, advantage)[1] / np.exp(log_ratio)
    np.testing.assert_allclose(slope, [2.0 * (1.0 + 2.0 * (0.5 + 3.0 * fallen)), 2.0, -2.0, -2.0], rtol=1e-5)


@pytest.mark.long_for("0.2", "0.5")
@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.5])
def test_the_squared_drift_is_best_at_epsilon_from_one(epsilon):
    ratio, advantage = np.linspace(0.3, 1.9, 1601, dtype=np.float32), np.array([1.5, -0.7])
    for value in advantage:
        drift = SquaredDrift(epsilon=epsilon)(jnp.log(ratio), jnp.full(ratio.shape, value, jnp.float32), {})
        np.testing.assert_allclose(drift, abs(value) * (ratio - 1.0) ** 2 / (2.0 * epsilon), atol=1e-5)
        best = ratio[np.argmax(ratio * value - np.asarray(drift))]
        np.testing.assert_allclose(best, 1.0 + np.sign(value) * epsilon, atol=2e-3)
