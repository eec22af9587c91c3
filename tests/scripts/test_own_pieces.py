"""The script that plugs in pieces of one's own runs, and every variant learns."""

import pytest

pytestmark = pytest.mark.publish


def test_every_variant_learns(script):
    returns = script.main(30_000)
    assert len(returns) == 4
    assert all(value > 30 for value in returns.values()), returns  # a random policy's is 22
