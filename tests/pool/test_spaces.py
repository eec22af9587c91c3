"""Spaces of ours as Gymnasium's and dm_env's."""

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.pool import spaces
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Space

MINE = {
    "box": Box(low=-1.0, high=np.array([1.0, 3.0], np.float32), shape=(2,)),
    "bytes": Box(low=0, high=255, shape=(4, 4), dtype=jnp.uint8),
    "flags": Box(low=0, high=1, shape=(3,), dtype=jnp.bool_),
    "one": Discrete(n=5),
    "several": MultiDiscrete(nvec=(2, 3)),
}
THEIRS = {
    "box": gymnasium.spaces.Box(np.float32([-1, -1]), np.float32([1, 3])),
    "bytes": gymnasium.spaces.Box(0, 255, (4, 4), np.uint8),
    "flags": gymnasium.spaces.MultiBinary([3]),
    "one": gymnasium.spaces.Discrete(5),
    "several": gymnasium.spaces.MultiDiscrete([2, 3], dtype=np.int32),
}


@pytest.mark.parametrize("kind", MINE)
def test_gymnasiums(kind):
    assert spaces.to_gymnasium(MINE[kind]) == THEIRS[kind]


def test_nested_ones():
    both = spaces.to_gymnasium(Dict(spaces={"a": MINE["one"], "b": Dict(spaces={"c": MINE["box"]})}))
    assert both == gymnasium.spaces.Dict({"a": THEIRS["one"], "b": gymnasium.spaces.Dict({"c": THEIRS["box"]})})


def test_dm_envs():
    specs = pytest.importorskip("dm_env.specs")
    assert spaces.to_dm(MINE["one"], "x") == specs.DiscreteArray(5, np.int32, "x")
    box = spaces.to_dm(MINE["box"], "x")
    assert (box.shape, box.dtype, box.name) == ((2,), np.float32, "x")
    np.testing.assert_array_equal(box.maximum, [1, 3])
    np.testing.assert_array_equal(spaces.to_dm(MINE["several"], "x").maximum, [1, 2])
    assert spaces.to_dm(MINE["flags"], "x").dtype == np.bool_
    nested = spaces.to_dm(Dict(spaces={"a": MINE["one"], "b": MINE["box"]}), "State")
    assert type(nested).__name__ == "State" and nested.a.name == "a" and nested.b.shape == (2,)


def test_named_tuples_of_dicts():
    found = spaces.to_namedtuple("State", {"obs": 1, "players": {"env_id": 2}})
    assert (found.obs, found.players.env_id) == (1, 2)
    assert type(found) is type(spaces.to_namedtuple("State", {"obs": 3, "players": {"env_id": 4}}))


@pytest.mark.long
def test_a_space_of_ones_own_has_no_counterpart():
    class Circle(Space):
        pass

    for convert in (spaces.to_gymnasium, lambda space: spaces.to_dm(space, "x")):
        with pytest.raises(InputError, match="Circle has no counterpart in"):
            convert(Circle())
