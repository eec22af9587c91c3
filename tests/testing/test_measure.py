"""Measuring an environment."""

import pytest

from purerl.testing import check_environment
from tests.helpers.walk import Walk


@pytest.mark.long
def test_measuring_gives_rates():
    figures = check_environment(Walk(), num_steps=8, eager=False, measure=True).figures
    rates = [figures[f"steps per second, {batch} in parallel"] for batch in (1, 64, 2048, 16384)]
    assert all(rate > 1000 for rate in rates)
    assert 0 <= figures["fraction of time in resets"] <= 1
