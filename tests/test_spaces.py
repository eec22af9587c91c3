"""Spaces: samples are inside and uniform, what is outside is told."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Stacked, form

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


@pytest.mark.long
def test_discrete_samples_are_uniform(key):
    """Chi-square over 9 degrees of freedom; 27.9 is exceeded once in a thousand."""
    samples = jax.vmap(Discrete(n=10).sample)(jax.random.split(key, 10_000))
    counts = np.bincount(samples, minlength=10)
    assert len(counts) == 10 and ((counts - 1000) ** 2 / 1000).sum() < 27.9
    parts = jax.vmap(MultiDiscrete(nvec=(2, 5)).sample)(jax.random.split(key, 10_000))
    pairs = np.bincount(np.asarray(parts[:, 0] * 5 + parts[:, 1]), minlength=10)
    assert len(pairs) == 10 and ((pairs - 1000) ** 2 / 1000).sum() < 27.9


@pytest.mark.long
def test_box_samples_reach_both_bounds(key):
    draws = jax.vmap(SPACES["box"].sample)(jax.random.split(key, 2000))
    assert draws.min() >= -2 and draws.max() <= 3
    np.testing.assert_allclose([draws.min(), draws.mean(), draws.max()], [-2, 0.5, 3], atol=0.05)
    integers = jax.vmap(SPACES["integers"].sample)(jax.random.split(key, 200))
    assert set(np.unique(integers)) == {-3, -2, -1, 0, 1, 2}
    octets = jax.vmap(SPACES["bytes"].sample)(jax.random.split(key, 50))
    assert octets.min() == 0 and octets.max() == 255
    line = jax.vmap(SPACES["no bounds"].sample)(jax.random.split(key, 2000))
    np.testing.assert_allclose([line.mean(), line.std()], [0, 1], atol=0.05)


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


def test_bounds_may_be_traced_and_vmapped(key):
    highs = jnp.array([1.0, 10.0])
    sample = lambda high: Box(low=0.0, high=high, shape=(1000,)).sample(key)
    np.testing.assert_allclose(jax.jit(jax.vmap(sample))(highs).max(1), highs, rtol=0.01)


def test_clip_moves_to_the_nearest_point():
    space = SPACES["box with a bound per number"]
    np.testing.assert_array_equal(space.clip(jnp.array([[2.0, 2.0], [-3.0, 9.0]])), [[1.0, 2.0], [0.0, 5.0]])


@pytest.mark.long_for("0-4294967295-uint32", "5-2147483647-int32")
@pytest.mark.parametrize(
    ("low", "high", "dtype"), [(-(2**31), 2**31 - 1, "int32"), (0, 2**32 - 1, "uint32"), (5, 2**31 - 1, "int32")]
)
def test_integers_of_all_words(low, high, dtype, key):
    space = Box(low=np.array(low), high=np.array(high), shape=(4000,), dtype=jnp.dtype(dtype))
    drawn = np.asarray(space.sample(key), np.float64)
    width = float(high) - low
    assert drawn.min() >= low and drawn.max() <= high
    for found in (drawn.mean(), np.median(drawn)):
        assert abs(found - low - width / 2) < 0.05 * width


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Discrete(0), "Discrete: n is 0; it must be a whole number, at least 1"),
        (lambda: Discrete(n=2.5), "Discrete: n is 2.5"),
        (lambda: MultiDiscrete([2, 0]), r"MultiDiscrete: nvec\[1\] is 0"),
        (lambda: MultiDiscrete(3), "nvec is 3; it must be a list"),
        (lambda: Box(1.0, -1.0, (2,)), r"low is 1.0 and high is -1.0 at \[0\]; low must not be larger"),
        (lambda: Box(np.zeros(3), np.ones(3), (2,)), r"low has the shape \(3,\), which does not broadcast to \(2,\)"),
        (lambda: Box(np.zeros(3), np.ones(2)), r"low and high have the shapes \(3,\) and \(2,\)"),
        (lambda: Box(np.nan, 1.0), "low is nan"),
        (lambda: Box(0, 1, 3), r"shape is 3; it must be a tuple of sizes, such as \(3,\)"),
        (lambda: Box(0, 1, (2.5,)), "shape is"),
        (lambda: Box(0, 1, dtype=np.float64), "dtype is float64; it must be one of numbers of at most 32 bits"),
        (lambda: Box(0, 1, dtype="flaot32"), "dtype is 'flaot32'"),
        (lambda: Dict([Discrete(2)]), "Dict: spaces is .*; it must be a dict of spaces by name"),
        (lambda: Dict({"a": Discrete}), "Dict: 'a' is .*; it must be one of purerl.spaces"),
        (lambda: Stacked(Discrete(2), 0), "Stacked: n is 0"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_form_is_what_networks_depend_on():
    assert form(Box(0, 1, (2,))) == form(Box(-5, 9, (2,))) != form(Box(0, 1, (3,)))
    assert form(MultiDiscrete((2, 3))) != form(MultiDiscrete((3, 2)))
    assert form(Dict({"a": Stacked(Discrete(2), 3)})) != form(Dict({"a": Stacked(Discrete(4), 3)}))
