"""The network of a planner: legal actions and leading axes."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from purerl.networks.actor_critic import actor_critic
from purerl.planning.config import SearchConfig
from purerl.planning.network import network_for
from purerl.spaces import Box, Dict, Discrete
from purerl.types import EnvironmentSpec

MASK = jnp.array([True, False, True])


@pytest.mark.long
def test_the_policy_gives_illegal_actions_no_probability():
    space = Dict(
        spaces={
            "observation": Box(low=-1.0, high=1.0, shape=(2,)),
            "action_mask": Box(low=0, high=1, shape=(3,), dtype=jnp.bool_),
        }
    )
    config = dataclasses.replace(SearchConfig(), hidden_sizes=(8,))
    net = network_for(EnvironmentSpec(space, Discrete(n=3)), config, actor_critic)
    seen = {"observation": jnp.zeros((4, 5, 2)), "action_mask": jnp.broadcast_to(MASK, (4, 5, 3))}
    policy, value = net.apply(net.init(jax.random.key(0)), seen)
    assert policy.logits.shape == (4, 5, 3) and value.shape == (4, 5)
    assert (jax.nn.softmax(policy.logits)[..., 1] == 0).all()
