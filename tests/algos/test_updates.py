"""Three tiny updates of every algorithm: what they depend on, and that their results have not changed.

Nothing follows a termination, so learning must not depend on the final observation; after a time limit, it must. The
numbers in tests/golden/updates.json are from code that passed all longer tests, including those against independent
references. Any change of an equation changes them. If the change is intended, run

    PURERL_WRITE_GOLDEN=1 uv run pytest -n 0 tests/algos/test_updates.py
"""

import jax.numpy as jnp
import pytest

from tests.helpers import golden
from tests.helpers.updates import CASES, updates

# CrossQ normalizes successors and observations as one batch; curiosity gives a bonus for the final observation itself.
SEES_TERMINAL = {"crossq", "ppo rnd", "ppo icm"}
TOLD_OF_ENDS = {"lpg"}  # its rule sees that an episode ended, but not why, as in the paper


@pytest.fixture(scope="module")
def known():
    yield from golden.file("updates.json")


@pytest.mark.parametrize("case", CASES)
def test_updates(case, known):
    learn = updates(case)
    terminated, limited, other = learn(True, 1.0), learn(False, 1.0), learn(False, 2.0)
    of_optimizer = [name for name in limited if "opt_state" in name and limited[name].size]
    change = lambda a, b: max(float(jnp.abs(a[name] - b[name]).max()) for name in of_optimizer)
    assert case in TOLD_OF_ENDS or change(limited, other) > 1e-6, "what follows a time limit is not learned from"
    if case not in SEES_TERMINAL:
        assert change(terminated, learn(True, 2.0)) < 1e-7, "what follows a termination is learned from"
    golden.check(known, f"{case}, terminated", terminated)
    golden.check(known, f"{case}, time limit", limited)
