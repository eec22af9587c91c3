"""The probes' best choices by hand."""

import numpy as np
import pytest

from purerl.testing.probes import LADDER


@pytest.mark.long
def test_best_choices_of_the_probes_by_hand():
    expected = {  # state -> (the better choice, by how much)
        "action": {0: (1, 1.0)},
        "observation": {0: (0, 1.0), 1: (1, 1.0)},
        "delay": {0: (1, 0.9 - 0.4)},
        "discount": {0: (0, 0.75 - 0.5)},
        "ending": {0: (1, 0.9 - 0.6)},
        "time limit": {0: (1, 0.9 - 0.4)},
        "memory": {2: (0, 2.0), 3: (1, 2.0)},
        "memory reset": {2: (0, 2.0), 3: (1, 2.0)},
    }
    assert set(expected) == {rung.name for rung in LADDER}
    for rung in LADDER:
        best, gap = rung.best()
        for state, (choice, by) in expected[rung.name].items():
            assert best[state] == choice
            np.testing.assert_allclose(gap[state], by, rtol=1e-6)
