"""Which environments say how an observation follows from a state."""

import jax
import numpy as np
import pytest

from purerl.envs.classic.cartpole import CartPole
from purerl.envs.tag.continuous import TagContinuous
from purerl.errors import InputError
from purerl.loop.observing import RebuildsAgents, follows_from_state, rebuilder
from purerl.types import Environment


class Silent(Environment):
    """It offers neither `observe` nor `rebuild`."""


@pytest.mark.parametrize("env", [CartPole(), TagContinuous(num_taggers=1, num_runners=3, num_neighbors=2)])
def test_the_rebuilt_observation_is_that_of_reset(env, key):
    assert follows_from_state(env)
    state, observation = env.reset(key)
    jax.tree.map(np.testing.assert_array_equal, rebuilder(env)(state), observation)
    if isinstance(env, RebuildsAgents):
        one = env.rebuild_agent(state, "runners", np.int32(2))
        np.testing.assert_array_equal(one, observation["runners"][2])


def test_an_environment_that_does_not_say_is_refused():
    assert not follows_from_state(Silent())
    with pytest.raises(InputError, match="Silent does not say how an observation follows from a state"):
        rebuilder(Silent())
