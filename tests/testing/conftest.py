"""Agents that learn the probes run for long: their training is compiled with more care than it takes elsewhere."""

import pytest

from purerl.testing import learning
from tests.helpers.compiled import jit_exactly


@pytest.fixture(autouse=True, scope="session")
def trains_fast():
    plain = learning._advance
    learning._advance = jit_exactly(plain.__wrapped__, static_argnums=0)
    yield
    learning._advance = plain
