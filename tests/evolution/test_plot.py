"""Surfaces of objectives and their pictures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.evolution.plot import ADVANTAGE, LOG_RATIO, objective_of, surface
from purerl.functional.drifts import SquaredDrift
from purerl.functional.objectives import ActorCriticLoss, Clip, Drifting
from purerl.functional.update_rules import LPG


@pytest.mark.long
def test_surfaces_are_drifts_and_pushes():
    """PPO's drift and its push from the equations; SPO's push is A - |A| (r - 1) / epsilon."""
    r, a = np.exp(LOG_RATIO.astype(np.float64))[None], ADVANTAGE.astype(np.float64)[:, None]
    ppos = surface(Clip(epsilon=0.2))
    np.testing.assert_allclose(ppos.drift, np.maximum((r - np.clip(r, 0.8, 1.2)) * a, 0), atol=1e-5)
    np.testing.assert_allclose(surface(Drifting(drift=SquaredDrift())).slope, a - np.abs(a) * (r - 1) / 0.2, atol=1e-4)


@pytest.mark.long
def test_what_has_an_objective():
    assert isinstance(objective_of(ActorCriticLoss()), Clip) and isinstance(objective_of(Clip()), Clip)
    mine = jax.tree_util.Partial(lambda weight, d, a, context: weight * d * a, jnp.float32(1.0))
    assert objective_of(mine) is mine
    assert objective_of(LPG.create(jax.random.key(0), 3, 4)) is None
