"""Critics of an observation and an action, and the map between a box of actions and [-1, 1]."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.sac import SACConfig
from purerl.errors import InputError
from purerl.networks.critics import critics, unit_box
from purerl.spaces import Box, Discrete

CONFIG = SACConfig(hidden_sizes=(8,))
OBSERVATION = Box(low=-1.0, high=1.0, shape=(3,))


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


def test_each_critic_has_parameters_of_its_own(key):
    pair = critics(OBSERVATION, 2, CONFIG, num=2)
    params = pair.init(key)
    observation, action = jax.random.normal(key, (5, 3)), jax.random.uniform(key, (5, 2))
    values = pair.apply(params, observation, action)
    assert values.shape == (2, 5) and np.abs(values[0] - values[1]).min() > 0
    alone = critics(OBSERVATION, 2, CONFIG, num=1)
    for i in range(2):
        np.testing.assert_allclose(alone.apply((params[i],), observation, action)[0], values[i], rtol=1e-6)
    slope = jax.grad(lambda p: pair.apply(p, observation, action)[0].sum())(params)
    assert not any(leaf.any() for leaf in jax.tree.leaves(slope[1])), "a critic does not teach the other"
    by_action = jax.grad(lambda a: pair.apply(params, observation, a).sum())(action)
    by_observation = jax.grad(lambda o: pair.apply(params, o, action).sum())(observation)
    assert (by_action != 0).any() and (by_observation != 0).any(), "it sees both"
