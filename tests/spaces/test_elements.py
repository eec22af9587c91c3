"""The form of a space."""

from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Stacked, form


def test_a_form_is_what_networks_depend_on():
    assert form(Box(0, 1, (2,))) == form(Box(-5, 9, (2,))) != form(Box(0, 1, (3,)))
    assert form(MultiDiscrete((2, 3))) != form(MultiDiscrete((3, 2)))
    assert form(Dict({"a": Stacked(Discrete(2), 3)})) != form(Dict({"a": Stacked(Discrete(4), 3)}))
