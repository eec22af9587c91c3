"""Recurrent Q networks: a step at a time or along a rollout, and illegal actions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.networks.encoder import NetworkConfig
from purerl.networks.recurrent_q_network import recurrent_q_network
from purerl.spaces import Box, Dict

SPACE = Dict(
    spaces={
        "action_mask": Box(low=0, high=1, shape=(3,), dtype=jnp.bool_),
        "seen": Box(low=-1.0, high=1.0, shape=(2,)),
    }
)


@pytest.mark.long
@pytest.mark.parametrize("dueling", [False, True])
def test_unrolled_it_is_what_its_steps_are(key, dueling):
    """Over five steps of two environments, of which one ends an episode; illegal actions are worth the least."""
    network = recurrent_q_network(SPACE, 3, NetworkConfig(hidden_sizes=(4,)), rnn="gru", rnn_size=5, dueling=dueling)
    params, carry = network.init(key), network.initial_carry(2)
    mask = jnp.array([True, False, True])
    seen = jax.random.normal(key, (5, 2, 2))
    observation = {"seen": seen, "action_mask": jnp.broadcast_to(mask, (5, 2, 3))}
    done = jnp.zeros((5, 2), bool).at[2, 1].set(True)
    along, _ = network.unroll(params, carry, observation, done)
    for t in range(5):
        q, carry = network.step(params, carry, {"seen": seen[t], "action_mask": observation["action_mask"][t]})
        np.testing.assert_allclose(along[t], q, atol=1e-6)
        assert (np.argmin(q, axis=-1) == 1).all()
        if t == 2:
            carry = jax.tree.map(lambda x, new: x.at[1].set(new[1]), carry, network.initial_carry(2))
