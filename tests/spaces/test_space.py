"""Spaces: samples are inside and uniform; values outside are reported."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Stacked

SPACES = {
    "discrete": Discrete(n=5),
    "multi-discrete": MultiDiscrete(nvec=(2, 7, 3)),
    "box": Box(low=-2.0, high=3.0, shape=(4, 2)),
    "box with a bound per number": Box(low=np.array([0.0, -1.0]), high=np.array([1.0, 5.0]), shape=(2,)),
    "half a line": Box(low=0.0, high=jnp.inf, shape=(3,)),
    "no bounds": Box(low=-jnp.inf, high=jnp.inf, shape=(3,)),
    "bytes": Box(low=0, high=255, shape=(8, 8, 3), dtype=jnp.uint8),
    "integers": Box(low=-3, high=2, shape=(6,), dtype=jnp.int32),
    "flags": Box(low=0, high=1, shape=(9,), dtype=jnp.bool_),
    "dict": Dict(spaces={"b": Discrete(n=3), "a": Dict(spaces={"x": Box(low=0.0, high=1.0, shape=())})}),
}


@pytest.mark.parametrize("name", SPACES)
def test_contains_its_samples(name, key):
    space = SPACES[name]
    samples = jax.vmap(space.sample)(jax.random.split(key, 500))
    assert jax.vmap(space.contains)(samples).all()
    for leaf, struct in zip(jax.tree.leaves(samples), jax.tree.leaves(space.struct), strict=True):
        assert leaf.shape[1:] == struct.shape and leaf.dtype == struct.dtype
    assert not bool(space.contains(jnp.zeros((3, 1, 3), jnp.int32)))
    zeros = space.zeros()
    assert jax.tree.structure(zeros) == jax.tree.structure(space.struct)
    assert space.size == sum(np.size(leaf) for leaf in jax.tree.leaves(zeros))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("discrete", jnp.int32(5)),
        ("discrete", jnp.int32(-1)),
        ("discrete", jnp.float32(1)),
        ("discrete", 1),
        ("multi-discrete", jnp.array([1, 7, 0])),
        ("multi-discrete", jnp.array([1, 6])),
        ("box", jnp.full((4, 2), 3.01)),
        ("box", jnp.full((4, 2), jnp.nan)),
        ("box", jnp.zeros((2, 4))),
        ("box with a bound per number", jnp.array([0.5, -1.5])),
        ("half a line", jnp.array([0.0, 1.0, -0.1])),
        ("bytes", jnp.zeros((8, 8, 3), jnp.int32)),
        ("flags", jnp.zeros(9, jnp.int32)),
        ("dict", {"b": jnp.int32(0)}),
        ("dict", {"b": jnp.int32(3), "a": {"x": jnp.float32(0)}}),
        ("dict", {"b": jnp.int32(0), "a": {"x": jnp.float32(2)}}),
        ("dict", {"b": jnp.int32(0), "a": {"x": jnp.float32(0)}, "c": jnp.int32(0)}),
    ],
)
def test_outside(name, value):
    assert not bool(SPACES[name].contains(value))


def test_spaces_are_made_as_gymnasiums():
    low, high = np.float32([-1, 0]), np.float32([1, 2])
    assert (Box(low, high).shape, Box(0, high).shape, Box(0, 1).shape, Box([0, 0], [1, 1]).shape) == (
        (2,),
        (2,),
        (),
        (2,),
    )
    assert str(Box(0, 255, (8, 8, 3), np.uint8)) == "Box uint8[8,8,3]"
    assert Box(low=jnp.asarray(low), high=1.0).shape == (2,)
    assert (Discrete(np.int64(3)).n, MultiDiscrete([2, 3]).nvec, MultiDiscrete(np.array([2, 3])).nvec) == (
        3,
        (2, 3),
        (2, 3),
    )
    assert Stacked(Dict({"a": Discrete(2)}), 3).struct["a"].shape == (3,)
    assert jax.vmap(lambda high: Box(low=0.0, high=high, shape=(2,)))(jnp.ones(5)).shape == (2,)
