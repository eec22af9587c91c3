"""Spaces made of spaces: what is not a space is refused."""

import pytest

from purerl.spaces import Dict, Discrete, Stacked
from tests.helpers.refusals import refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dict([Discrete(2)]), "Dict: spaces is .*; it must be a dict of spaces by name"),
        (lambda: Dict({"a": Discrete}), "Dict: 'a' is .*; it must be one of purerl.spaces"),
        (lambda: Stacked(Discrete(2), 0), "Stacked: n is 0"),
    ],
)
def test_nonsense_is_refused(make, message):
    refused(make, message)
