"""Comparing pytrees by the names of their parts."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.testing import trees


class Place(NamedTuple):
    x: jax.Array
    food: dict


PLACE = Place(jnp.zeros(2), {"n": jnp.int32(3)})


def test_leaves_have_names():
    assert list(trees.paths(PLACE)) == [".x", ".food['n']"]
    assert trees.describe(PLACE.x) == "float32[2]" and trees.describe("text") == "str"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (PLACE._replace(food={"n": jnp.int32(3), "m": PLACE.x}), r"it\.food\['m'\] is not in that, which has \.x"),
        (PLACE._replace(food={}), r"it\.food\['n'\] is missing: it is in that"),
        (PLACE._replace(x=jnp.zeros(3)), r"it\.x is float32\[3\]; in that it is float32\[2\]"),
        (PLACE._replace(x=jnp.zeros(2, jnp.int32)), r"it\.x is int32\[2\]"),
        (PLACE._replace(food={"n": jnp.int32(3), "none": None}), "the two must be of one type"),
    ],
)
def test_the_first_difference_is_named(given, message):
    with pytest.raises(InputError, match=message):
        trees.same_struct("it", given, PLACE, "that")


def test_equal_structures_pass_whatever_their_numbers():
    trees.same_struct("it", jax.tree.map(lambda x: x + 1, PLACE), jax.eval_shape(lambda: PLACE), "that")


def test_differences_of_numbers():
    a = {"x": np.float32([1.0, np.nan, 3.0]), "n": np.int32(4)}
    assert trees.difference(a, {**a}) is None
    near = {**a, "x": a["x"] + np.float32(0.25)}
    assert trees.difference(a, near) == "['x'][0]: 1.0 against 1.25"
    assert trees.difference(a, near, tolerance=0.3) is None
    assert trees.difference(a, {**a, "n": np.int32(5)}, tolerance=10.0) == "['n']: 4 against 5"


def test_keys_go_to_the_host_and_back():
    tree = {"key": jax.random.key(7), "x": jnp.arange(3)}
    words = trees.host(tree)
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(words))
    back = trees.device(words, tree)
    assert trees.is_key(back["key"]) and jax.random.key_impl(back["key"]) == jax.random.key_impl(tree["key"])
    np.testing.assert_array_equal(jax.random.bits(back["key"]), jax.random.bits(tree["key"]))


@pytest.mark.long_for("<lambda>-it fails: KeyError: 'y' \\\\(test_trees\\\\.py:\\\\d+\\\\)")
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x if x > 0 else -x, r"it asks for the value of a traced array.*test_trees\.py:\d+\): use jnp.where"),
        (lambda x: jnp.sin(np.asarray(x)), r"it gives a traced array to NumPy \(test_trees\.py:\d+\): use jax.numpy"),
        (lambda x: {}["y"], r"it fails: KeyError: 'y' \(test_trees\.py:\d+\)"),
    ],
)
def test_why_something_cannot_be_traced_is_said_with_its_line(function, message):
    with pytest.raises(InputError, match=message):
        trees.traced("it", function, jnp.float32(1))


@pytest.mark.long
def test_what_can_be_traced_gives_its_shapes():
    assert trees.traced("it", lambda x: x[None], jnp.zeros(2)).shape == (1, 2)
