"""Elo ratings known by hand."""

import math

import numpy as np
import pytest

from purerl.extensions.self_play import elo


def test_ratings_known_by_hand():
    """Ten wins of eleven are 400 points, 10 to 1 again 400 more; one more win each way of 11 makes that 11 to 2."""
    won = np.array([[0, 1, 0], [10, 0, 1], [0, 10, 0]])
    np.testing.assert_allclose(elo.ratings(won, prior=0), [1000, 1400, 1800], atol=1e-6)
    pair = np.array([[0, 1], [10, 0]])
    np.testing.assert_allclose(elo.ratings(pair, prior=1), [1000, 1000 + 400 * math.log10(11 / 2)], atol=1e-6)
    never_lost = elo.ratings(np.array([[0, 0], [8, 0]]))
    assert never_lost[1] == pytest.approx(1000 + 400 * math.log10(8.5 / 0.5))
