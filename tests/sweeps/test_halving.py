"""Successive halving: the promotions by hand."""

import numpy as np
import pytest

from purerl.errors import InputError
from purerl.sweeps import halving
from purerl.sweeps import plan as sweep_plan


def test_promotions():
    """The rule on a table of scores, by hand."""
    none = np.full((6, 2), np.nan)
    reached, target = np.zeros(6, int), np.zeros(6, int)
    assert halving.next_trial(none, reached, target, 3) == 0
    reached[:3], target[:3] = 1, 1
    scores = none.copy()
    scores[:3, 0] = 5, 9, np.nan
    assert halving.next_trial(scores, reached, target, 3) == 1, "one of three goes on before a new one begins"
    target[1] = 2
    assert halving.next_trial(scores, reached, target, 3) == 3, "the first new one"
    reached[:], target[:] = 1, np.array([1, 2, 1, 1, 1, 1])
    scores[:, 0] = 5, 9, np.nan, 1, 7, 8
    assert halving.next_trial(scores, reached, target, 3) == 5, "the second best of six"
    target[5] = 2
    assert halving.next_trial(scores, reached, target, 3) == halving.IDLE
    assert halving.next_trial(scores[:5], reached[:5], target[:5], 3) == halving.IDLE, "five have one that goes on"
    assert sweep_plan.rungs(50, 3, 3) == [6, 17, 50]
    with pytest.raises(InputError, match="3 rungs with eta 3 need at least 9 points"):
        sweep_plan.rungs(4, 3, 3)
