"""References to observations, looked up in parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.functional.distributions import action_head
from purerl.networks.actor_critic import ActorCriticConfig, actor_critic
from purerl.recompute import references
from purerl.spaces import Box, Discrete


def test_rows_are_cut_and_joined_again(monkeypatch):
    monkeypatch.setattr(references, "PART_BYTES", 12)
    x = jnp.arange(14.0).reshape(7, 2)
    found = references.in_parts(lambda rows: {"twice": 2 * rows, "rows": jnp.full(rows.shape[0], rows.shape[0])}, x, 4)
    np.testing.assert_array_equal(found["twice"], 2 * x)
    np.testing.assert_array_equal(found["rows"], [3] * 7)


@pytest.mark.parametrize(
    "actions", [Box(low=-1.0, high=1.0, shape=(1,)), Box(low=-1.0, high=1.0, shape=(2,)), Discrete(n=3)]
)
def test_an_unroll_in_parts_is_the_whole_one(actions, monkeypatch, key):
    """Also of a policy whose deviation is one for all observations."""
    space = Box(low=-9.0, high=9.0, shape=(3,))
    config = ActorCriticConfig(hidden_sizes=(4,))
    net = actor_critic(space, action_head(actions), config)
    params, seen, done = net.init(key), jax.random.normal(key, (7, 2, 3)), jnp.zeros((7, 2), bool)
    policy, value, _ = net.unroll(params, (), seen, done)
    drawn = policy.sample(seed=key)
    monkeypatch.setattr(references, "PART_BYTES", 96)
    parts, values, _ = references.looking_up(net, lambda x: x).unroll(params, (), seen, done)
    np.testing.assert_allclose(values, value, rtol=1e-6)
    np.testing.assert_allclose(parts.log_prob(drawn), policy.log_prob(drawn), rtol=1e-5)
