"""The script that brings a network of its own."""

import pytest

pytestmark = pytest.mark.publish


def test_both_algorithms_learn_with_it(script):
    returns = script.main(["--steps", "20000"])
    assert set(returns) == {"ppo", "dqn"} and returns["ppo"] > 40, returns  # a random policy's return is 22
