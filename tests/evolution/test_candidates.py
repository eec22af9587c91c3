"""Initial candidates: each is what its name says."""

import jax
import numpy as np
import pytest

from purerl.evolution import candidates
from purerl.evolution.method import flatten
from purerl.functional.drifts import DPO, ClipDrift, KLPenalty, RecoveryDrift, SquaredDrift
from purerl.functional.objectives import ActorCriticLoss, Clip, Drifting
from purerl.functional.update_rules import LPG

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
POINTS = RNG.normal(0, 0.5, 512).astype(np.float32), RNG.normal(0, 1.5, 512).astype(np.float32)
SIZES = {
    "lpo": 1152,
    "lpo_zero": 1152,
    "ppo": 1,
    "dpo": 2,
    "kl": 1,
    "spo": 1,
    "recovery": 2,
    "actor_critic": 3,
    "open_optimizer": 1211,
}


@pytest.mark.parametrize("name", SIZES)
def test_numbers_that_are_evolved(name):
    vector, _ = flatten(getattr(candidates, name)(KEY))
    assert vector.size == SIZES[name]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("lpo", Drifting(drift=ClipDrift(epsilon=0.2))),
        ("lpo_zero", lambda log_ratio, advantage, context: -np.exp(log_ratio) * advantage),
        ("ppo", Clip(epsilon=0.2)),
        ("dpo", Drifting(drift=DPO())),
        ("kl", Drifting(drift=KLPenalty())),
        ("spo", Drifting(drift=SquaredDrift())),
        ("recovery", Drifting(drift=RecoveryDrift(slope=1.27, curvature=0.0))),
    ],
)
def test_a_search_starts_at_what_is_known(name, known):
    found = getattr(candidates, name)(KEY)(*POINTS, {})
    np.testing.assert_allclose(found, known(*POINTS, {}), rtol=1e-5, atol=2e-4)


@pytest.mark.long
def test_networks_are_drawn_from_the_key():
    for name in ("valid_network", "lpg", "ta_lpg", "open_optimizer"):
        start = getattr(candidates, name)
        one, other, again = (flatten(start(jax.random.key(seed)))[0] for seed in (0, 1, 0))
        assert np.abs(one - other).max() > 0 and (one == again).all(), name
    assert isinstance(candidates.lpg(KEY), LPG) and not candidates.lpg(KEY).temporal
    assert candidates.ta_lpg(KEY).temporal and isinstance(candidates.actor_critic(KEY), ActorCriticLoss)
