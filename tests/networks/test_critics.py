"""Critics of an observation and an action."""

import jax
import numpy as np
import pytest

from purerl.algos.sac import SACConfig
from purerl.networks.critics import critics
from purerl.spaces import Box

CONFIG = SACConfig(hidden_sizes=(8,))
OBSERVATION = Box(low=-1.0, high=1.0, shape=(3,))


@pytest.mark.long
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
