"""Masks of legal actions have a flag for each choice of one agent, or of one of each group."""

import jax.numpy as jnp
import pytest

from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Stacked
from purerl.spaces.masks import check_masks
from tests.helpers.refusals import refused


def seen(count):
    return Dict({"x": Box(0, 1, (2,)), "action_mask": Box(0, 1, (count,), jnp.bool_)})


def test_fitting_masks_pass():
    check_masks(seen(3), Discrete(3))
    check_masks(seen(5), MultiDiscrete((3, 2)))
    check_masks(Dict({"red": Stacked(seen(3), 2)}), Dict({"red": Stacked(Discrete(3), 2)}))
    check_masks(Box(0, 1, (2,)), Box(-1, 1, (1,)))


@pytest.mark.parametrize(
    ("space", "acts", "message"),
    [
        (seen(2), Discrete(3), r"Mine: action_mask is Box bool\[2\]; it must be bool\[3\]"),
        (seen(3), MultiDiscrete((3, 2)), r"it must be bool\[5\]"),
        (seen(1), Box(-1, 1, (1,)), "which is for choices; the actions are Box"),
        (Dict({"red": Stacked(seen(2), 2)}), Dict({"red": Stacked(Discrete(3), 2)}), r"it must be bool\[3\]"),
    ],
)
def test_others_are_refused(space, acts, message):
    refused(lambda: check_masks(space, acts, "Mine: "), message)
