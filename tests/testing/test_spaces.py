"""What the conformance suite finds in an environment's spaces."""

import types

import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Stacked
from purerl.testing.spaces import check_spaces, notes_of_bytes


def checked(seen, acts):
    env = types.SimpleNamespace(observation_space=seen, action_space=acts)
    return {check.name: check.detail for check in check_spaces(env, "Mine")}


def masked(size, dtype=jnp.bool_):
    return Dict({"observation": Box(0, 1, (2,)), "action_mask": Box(0, 1, (size,), dtype)})


@pytest.mark.parametrize(
    ("seen", "acts", "message"),
    [
        (masked(3), Discrete(4), r"Mine: action_mask is Box bool\[3\]; it must be bool\[4\]"),
        (masked(2), MultiDiscrete((2, 3)), r"it must be bool\[5\]"),
        (masked(2), Box(-1, 1, (2,)), "an action_mask, which is for choices"),
        (Dict({"a": Stacked(masked(3), 2)}), Dict({"a": Stacked(Discrete(2), 2)}), r"it must be bool\[2\]"),
        (Box(low=jnp.ones(2), high=jnp.zeros(2)), Discrete(2), r"Mine: observation has bounds .*; low must not"),
    ],
)
def test_spaces_that_do_not_fit(seen, acts, message):
    with pytest.raises(InputError, match=message):
        checked(seen, acts)


def test_what_is_worth_knowing():
    seen = Dict(
        {
            "contacts": Box(-1, 1, (0,)),
            "flags": Box(0, 1, (4,), np.uint8),
            "camera": Box(0, 255, (4, 84, 84), np.uint8),
            "speed": Box(-1, 1, (3,)),
        }
    )
    assert checked(seen, Box(np.float32([-1, 0]), np.float32([1, 0]))) == {
        "observation['contacts']": "empty: it is left out",
        "observation['flags']": "bytes up to 1: networks see them divided by that, not by 255",
        "observation['camera']": "images with channels or frames first: networks see [84, 84, 4]",
        "action": "0 is not well inside the bounds: draws of -1 .. 1 span them; --squash-actions goes through tanh",
    }
    assert checked(masked(2, jnp.float32), Discrete(2)) == {}


def test_bytes_that_are_no_pixels_are_noticed():
    pixels, codes = Box(0, 255, (7, 7, 3), np.uint8), Box(0, 10, (7, 7, 3), np.uint8)
    played = {"['a']": (pixels, 10), "['b']": (pixels, 200), "['c']": (codes, 10), "['d']": (Discrete(3), 2)}
    (found,) = notes_of_bytes(played)
    assert found.name == "observation['a']" and found.detail.startswith("bytes reached only 10 in random play")
