"""A closed form is found from samples of a drift."""

import jax
import numpy as np
import pytest

from purerl.evolution.distill import distill
from purerl.evolution.plot import LOG_RATIO
from purerl.functional.drifts import DPO, LPO, RecoveryDrift
from purerl.functional.objectives import Drifting


@pytest.mark.long
def test_distilling_recovers_dpo_from_samples():
    form = distill(Drifting(drift=DPO()))
    assert (form.good_terms, form.bad_terms) == (("tanh u",), ("tanh v",))
    np.testing.assert_allclose(form.good, [[1.0, 2.0]], rtol=1e-3)
    np.testing.assert_allclose(form.bad, [[1.0, 0.6]], rtol=1e-3)
    assert form.error < 1e-3 and "relu(u - 2 tanh(u / 2)), u = (r - 1) A" in form.text()
    points = LOG_RATIO, np.full_like(LOG_RATIO, -1.5)
    np.testing.assert_allclose(form(*points, {}), DPO()(*points, {}), atol=1e-4)


def test_a_drift_of_one_side_is_recognized():
    form = distill(Drifting(drift=RecoveryDrift(slope=1.3, curvature=0.0)))
    assert (form.good_terms, form.bad_terms) == (("fall |A|",), ())
    np.testing.assert_allclose(form.good[0, 0], 1.3, rtol=1e-3)


def test_distilling_says_how_wrong_it_is():
    drift = LPO.at_ppo(jax.random.key(0), 8)
    wild = Drifting(drift=jax.tree.map(lambda x: x + 0.5 * jax.random.normal(jax.random.key(1), x.shape), drift))
    form = distill(wild)
    grid = [
        x.reshape(-1)
        for x in np.meshgrid(np.linspace(-1, 1, 81, dtype=np.float32), np.linspace(-3, 3, 60, dtype=np.float32))
    ]
    truth = np.asarray(wild.drift(*grid, {}))
    np.testing.assert_allclose(
        form.error, np.sqrt(np.mean((np.asarray(form(*grid, {})) - truth) ** 2) / np.mean(truth**2)), rtol=1e-2
    )
    assert 0.01 < form.error < 0.5
