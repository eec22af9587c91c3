"""Actor-critic networks: with and without a body in common, one observation at a time and along a rollout."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.functional.distributions import action_head
from purerl.networks.actor_critic import ActorCriticConfig, actor_critic
from purerl.spaces import Box, Dict, Discrete

SPACE, HEAD = Box(low=-1.0, high=1.0, shape=(3,)), action_head(Discrete(n=4))
OBSERVATION = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2, 3)), jnp.float32)


@pytest.mark.parametrize("share_body", [False, True])
def test_a_rollout_is_its_steps(share_body):
    net = actor_critic(SPACE, HEAD, ActorCriticConfig(hidden_sizes=(8,), share_body=share_body))
    params = net.init(jax.random.key(0))
    assert ("critic_body" in params) is not share_body
    along, values, carry = net.unroll(params, (), OBSERVATION, jnp.zeros((5, 2), jnp.bool_))
    assert carry == () and along.logits.shape == (5, 2, 4) and values.shape == (5, 2)
    for t in range(5):
        assert np.allclose(net.policy(params, (), OBSERVATION[t])[0].logits, along.logits[t], atol=1e-6)
        assert np.allclose(net.value(params, (), OBSERVATION[t]), values[t], atol=1e-6)


@pytest.mark.parametrize("share_body", [False, True])
def test_what_the_value_teaches_the_policy(share_body):
    """The value's gradient reaches what the policy sees by exactly where they share it."""
    net = actor_critic(SPACE, HEAD, ActorCriticConfig(hidden_sizes=(8,), share_body=share_body))
    gradient = jax.grad(lambda params: jnp.sum(net.value(params, (), OBSERVATION)))(net.init(jax.random.key(0)))
    assert bool(jnp.any(jax.flatten_util.ravel_pytree(gradient["body"])[0] != 0)) is share_body


def test_a_critic_that_sees_more_has_a_body_of_its_own():
    space = Dict(spaces={"observation": SPACE, "global_state": SPACE})
    with pytest.raises(InputError, match="share_body goes without centralized_critic"):
        actor_critic(space, HEAD, ActorCriticConfig(share_body=True))
