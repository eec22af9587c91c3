"""V-trace against a loop by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from purerl.functional.returns import gae
from purerl.functional.vtrace import vtrace

T, B = 7, 5


@pytest.fixture
def rollout():
    rng = np.random.default_rng(0)
    terminated = rng.random((T, B)) < 0.2
    truncated = ~terminated & (rng.random((T, B)) < 0.2)
    draw = lambda: rng.normal(size=(T, B)).astype(np.float32)
    return {
        "log_ratio": draw(),
        "reward": draw(),
        "value": draw(),
        "next_value": draw(),
        "terminated": terminated,
        "done": terminated | truncated,
    }


def by_hand(log_ratio, reward, value, next_value, terminated, done, discount, lam, rho_clip, c_clip):
    """The sum of equation 1, term by term: no recursion shared with the code."""
    ratio = np.exp(log_ratio.astype(np.float64))
    rho, c = np.minimum(rho_clip, ratio), lam * np.minimum(c_clip, ratio)
    successor = np.where(terminated, 0.0, next_value)
    delta = rho * (reward + discount * successor - value)
    target, advantage = np.zeros((T, B)), np.zeros((T, B))
    for b in range(B):
        for s in range(T):
            total, weight = 0.0, 1.0
            for t in range(s, T):
                total += weight * delta[t, b]
                if done[t, b]:
                    break
                weight *= discount * c[t, b]
            target[s, b] = value[s, b] + total
        for s in range(T):
            alone = done[s, b] or s == T - 1
            following = successor[s, b] if alone else target[s + 1, b]
            advantage[s, b] = rho[s, b] * (reward[s, b] + discount * following - value[s, b])
    return target, advantage


@pytest.mark.parametrize(("lam", "rho_clip", "c_clip"), [(1.0, 1.0, 1.0), (0.9, 2.0, 0.7)])
def test_equals_the_sum_by_hand(rollout, lam, rho_clip, c_clip):
    target, advantage = vtrace(**rollout, discount=0.9, trace_lambda=lam, rho_clip=rho_clip, c_clip=c_clip)
    expected_target, expected_advantage = by_hand(**rollout, discount=0.9, lam=lam, rho_clip=rho_clip, c_clip=c_clip)
    np.testing.assert_allclose(target, expected_target, atol=1e-5)
    np.testing.assert_allclose(advantage, expected_advantage, atol=1e-5)


@pytest.mark.long
def test_on_policy_targets_are_the_lambda_returns_of_gae(rollout):
    on_policy = rollout | {"log_ratio": np.zeros((T, B), np.float32)}
    target = vtrace(**on_policy, discount=0.9, trace_lambda=0.8).target
    rest = {name: jnp.asarray(x) for name, x in rollout.items() if name != "log_ratio"}
    np.testing.assert_allclose(target, gae(**rest, discount=0.9, gae_lambda=0.8) + rest["value"], atol=1e-5)


@pytest.mark.long
def test_wrong_shapes_are_refused():
    arrays = [jnp.zeros((T, B))] * 4 + [jnp.zeros((T, B), bool)] * 2
    for i in range(6):
        with pytest.raises(AssertionError):
            vtrace(*arrays[:i], arrays[i][:, :1], *arrays[i + 1 :], 0.9)
