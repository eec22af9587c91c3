"""LPG's rule and OPEN's optimizer: their sizes and properties, and that agents train with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.lpg import LPGConfig
from purerl.evolution.method import flatten
from purerl.functional.update_rules import LPG, RuleInputs

T, B, M = 6, 3, 5


KEY = jax.random.key(0)


def seen(seed=0):
    rng = np.random.default_rng(seed)
    normal = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)
    done = jnp.zeros((T, B), bool).at[2, 0].set(True)
    y, following = (jax.nn.softmax(normal(T, B, M)) for _ in range(2))
    return RuleInputs(
        reward=normal(T, B),
        done=done,
        discount=jnp.float32(0.9),
        probability=jax.nn.sigmoid(normal(T, B)),
        prediction=y,
        next_prediction=following,
        progress=jnp.float32(0.5),
        lifetime=jnp.float32(1e4),
    )


@pytest.mark.long
def test_a_rule_reads_backwards_and_not_over_an_ending():
    rule = LPG.create(KEY, M, units=8)
    before, _ = rule((), seen())
    assert before.policy.shape == (T, B) and before.prediction.shape == (T, B, M)
    np.testing.assert_allclose(before.prediction.sum(-1), 1.0, rtol=1e-5)
    changed = seen()._replace(reward=seen().reward.at[4].add(1.0))
    after, _ = rule((), changed)
    moved = np.abs(np.asarray(after.policy - before.policy)) > 1e-7
    assert moved[:5, 1].all() and not moved[5].any()  # the past sees it, the future does not
    assert not moved[:3, 0].any() and moved[3:5, 0].all()  # nor does another episode
    _, tree = flatten(rule)
    assert tree(flatten(rule)[0]).categories == M


@pytest.mark.long
def test_only_the_temporal_rule_sees_the_age():
    older = seen()._replace(progress=jnp.float32(0.9))
    for temporal in (False, True):
        rule = LPG.create(KEY, M, units=8, temporal=temporal)
        differ = np.abs(np.asarray(rule((), seen())[0].policy - rule((), older)[0].policy)).max()
        assert (differ > 1e-6) == temporal


LPG_CONFIG = LPGConfig(num_envs=4, rollout_length=8, hidden_sizes=(8,))
