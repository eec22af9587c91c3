"""Random play is counted right."""

import pytest

from purerl.testing import check_environment
from tests.helpers.walk import Walk


@pytest.mark.long
def test_random_play_is_counted_right():
    """Starting at |x| < 1 with steps of 1 and a bound of 0.5, every first step from |x| > 0.5 outwards ends."""
    report = check_environment(Walk(length=0.0), num_steps=32, eager=False)
    assert report.figures["episodes ended in random play"] == "256 in 256 steps"
    assert report.figures["mean length of random play"] == 1.0
