"""Objectives: every row leads to a start that is drawn from a key."""

import pytest

from purerl import registry
from purerl.catalog.objectives import OBJECTIVES


@pytest.mark.long_for("lpg", "ta-lpg")
@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_are_drawn_from_a_key(name, key):
    row = OBJECTIVES[name]
    assert registry.algorithm(row.algorithm) and row.summary and row.source
    assert registry.load(registry.objective(name).start)(key) is not None
