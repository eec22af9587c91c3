"""Objectives and drifts against NumPy and published values, and the properties that make a drift one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.functional.drifts import DPO, ClipDrift
from purerl.functional.objectives import (
    ActorCriticLoss,
    Clip,
    Drifting,
    Mixture,
    PolicyGradient,
    Samples,
    check_objective,
    mean_loss,
    per_sample,
)
from tests.helpers.losses import DRIFTS, POINTS, RNG, loss_and_gradient


def test_clip_as_a_drift_is_clip():
    ours = loss_and_gradient(Drifting(drift=ClipDrift(epsilon=0.2)), *POINTS)
    theirs = loss_and_gradient(Clip(epsilon=0.2), *POINTS)
    ratio, advantage = np.exp(POINTS[0].astype(np.float64)), POINTS[1].astype(np.float64)
    by_hand = -np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
    assert 0.2 < (by_hand != -ratio * advantage).mean() < 0.8  # the clip is at work
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ours[0], by_hand, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("objective", [Clip(), PolicyGradient()])
def test_objectives_stay_finite_for_extreme_ratios(objective):
    log_ratio = np.linspace(-200, 200, 801, dtype=np.float32)
    for advantage in (-3.0, 0.0, 3.0):
        for values in loss_and_gradient(objective, log_ratio, np.full(801, advantage, np.float32)):
            assert np.isfinite(values).all()


@pytest.mark.long
def test_a_mixture_under_vmap_is_each_of_its_members():
    members = (Drifting(drift=DRIFTS["dpo"]), Drifting(drift=DRIFTS["learned"]), Clip())
    together = jax.vmap(lambda i: Mixture(members=members, index=i)(*POINTS, {}))(jnp.arange(3))
    for i, member in enumerate(members):
        np.testing.assert_allclose(together[i], member(*POINTS, {}), rtol=1e-6)


def samples(n=64):
    return Samples(*(RNG.normal(size=n).astype(np.float32) for _ in Samples._fields))


@pytest.mark.parametrize("delta", [None, 0.8])
@pytest.mark.parametrize("value_clip", [None, 0.3])
def test_the_whole_loss_by_hand(value_clip, delta):
    s = samples()
    weights = {"value_coefficient": 0.7, "entropy_coefficient": 0.03}
    loss = ActorCriticLoss(**weights, value_clip=value_clip, value_huber_delta=delta)
    square = lambda e: e**2 if delta is None or abs(e) <= delta else 2 * delta * abs(e) - delta**2
    ratio = np.exp(s.log_ratio)
    error = np.array([square(e) for e in s.value - s.target])
    if value_clip is not None:
        near = s.old_value + np.clip(s.value - s.old_value, -value_clip, value_clip)
        error = np.maximum(error, [square(e) for e in near - s.target])
    policy = -np.minimum(ratio * s.advantage, np.clip(ratio, 0.8, 1.2) * s.advantage)
    by_hand = policy + 0.35 * error - 0.03 * s.entropy
    np.testing.assert_allclose(loss(s, {}), by_hand, rtol=1e-5, atol=1e-6)
    mask = np.arange(64) % 3 > 0
    for chosen, used in ((None, slice(None)), (mask, mask)):
        total, told = mean_loss(loss, s, {}, chosen)
        np.testing.assert_allclose(total, by_hand[used].mean(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(told["value_loss"], 0.5 * error[used].mean(), rtol=1e-5)
        plain, _ = mean_loss(lambda samples, context: loss(samples, context), s, {}, chosen)
        np.testing.assert_allclose(plain, total, rtol=1e-5, atol=1e-6)


@pytest.mark.long
def test_wrong_shapes_are_refused():
    column = lambda log_ratio, advantage, context: log_ratio[:, None]
    for call in (  # an objective, one in a drift, a loss, one that is tried
        lambda: per_sample(column, *POINTS, {}),
        lambda: per_sample(Drifting(drift=column), *POINTS, {}),
        lambda: mean_loss(lambda s, context: jnp.mean(s.value), samples(), {}),
        lambda: check_objective(column),
    ):
        with pytest.raises(InputError, match=r"it must return one loss per sample, shape \(\d+,\)"):
            call()


@pytest.mark.long
def test_what_is_not_finite_is_refused():
    with pytest.raises(InputError, match="objective Clip has a loss of nan at log-ratio"):
        check_objective(Clip(epsilon=float("nan")))
    with pytest.raises(InputError, match=r"has a gradient of .* it must be finite"):
        check_objective(lambda log_ratio, advantage, context: jnp.sqrt(jnp.abs(log_ratio)) * advantage)
    check_objective(Drifting(drift=DPO()))
