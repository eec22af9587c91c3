"""The map between a box of actions and [-1, 1]."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.functional.unit_box import reaching, unit_box
from purerl.spaces import Box, Discrete


def test_a_box_and_the_unit_box():
    box = unit_box(Box(low=np.array([-2.0, 0.0]), high=np.array([6.0, 0.5]), shape=(2,)), "it")
    unit = jnp.array([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.5]])
    action = jnp.array([[-2.0, 0.0], [6.0, 0.5], [2.0, 0.375]])
    np.testing.assert_allclose(box.from_unit(unit), action, rtol=1e-6)
    np.testing.assert_allclose(box.to_unit(action), unit, atol=1e-6)
    np.testing.assert_array_equal(box.from_unit(jnp.array([1.0000001, -1.5])), [6.0, 0.0])  # never outside
    assert box.size == 2
    traced = jax.jit(lambda high: unit_box(Box(low=-1.0, high=high, shape=(1,)), "it").from_unit(jnp.ones(1)))
    assert traced(jnp.float32(3.0)) == 3.0


@pytest.mark.parametrize("wrap", [lambda high: high, jnp.asarray], ids=["known", "traced"])
def test_equal_bounds_are_the_middle(wrap):
    box = unit_box(Box(low=np.float32([-1, 0.5]), high=wrap(np.float32([1, 0.5])), shape=(2,)), "it")
    np.testing.assert_array_equal(box.to_unit(jnp.array([0.5, 0.5])), [0.5, 0.0])
    np.testing.assert_array_equal(box.from_unit(jnp.array([0.5, -1.0])), [0.5, 0.5])
    assert np.isfinite(jax.grad(lambda x: box.to_unit(x).sum())(jnp.zeros(2))).all()


@pytest.mark.parametrize("wrap", [lambda high: high, jnp.asarray], ids=["known", "traced"])
def test_draws_reach_every_box(wrap):
    """Per dimension (low, high) and where draws of -1, 0 and 1 go."""
    rows = {
        (-1.0, 1.0): (-1.0, 0.0, 1.0),
        (-2.0, 2.0): (-1.0, 0.0, 1.0),
        (-np.inf, np.inf): (-1.0, 0.0, 1.0),
        (10.0, 20.0): (10.0, 15.0, 20.0),
        (0.0, 0.001): (0.0, 0.0005, 0.001),
        (-1000.0, 1000.0): (-1000.0, 0.0, 1000.0),
        (0.0, 1.0): (0.0, 0.5, 1.0),
        (5.0, np.inf): (5.0, 6.0, 7.0),
        (-np.inf, -3.0): (-5.0, -4.0, -3.0),
        (-0.5, np.inf): (-0.5, 0.0, 1.0),
        (3.0, 3.0): (3.0, 3.0, 3.0),
    }
    low, high = np.float32(list(rows)).T
    to_action = reaching(Box(low=low, high=wrap(high), shape=(len(rows),)))
    draws = jnp.broadcast_to(jnp.array([-1.0, 0.0, 1.0])[:, None], (3, len(rows)))
    np.testing.assert_allclose(to_action(draws).T, list(rows.values()), rtol=1e-6)


def test_draws_are_actions_where_0_lies_well_inside():
    space = Box(low=-2.0, high=2.0, shape=(2,))
    assert reaching(space) == space.clip  # to the bit


@pytest.mark.long_for("space1-a Box with one axis", "space2-bounds of the actions must be finite")
@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Discrete(n=2), "it: needs continuous actions"),
        (Box(low=0.0, high=1.0, shape=(2, 2)), "a Box with one axis"),
        (Box(low=-jnp.inf, high=1.0, shape=(1,)), "bounds of the actions must be finite"),
    ],
)
def test_actions_that_have_no_unit_box(space, message):
    with pytest.raises(InputError, match=message):
        unit_box(space, "it")
