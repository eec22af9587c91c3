"""The learned model of an environment: shapes, scales, and that dynamics follow the action."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.muzero import MuZeroConfig
from purerl.networks.latent_model import latent_model, unit
from purerl.spaces import Box, Dict, Discrete

SPACE = Dict(
    spaces={
        "observation": Box(low=-1.0, high=1.0, shape=(3,)),
        "action_mask": Box(low=0, high=1, shape=(4,), dtype=bool),
    }
)


@pytest.mark.long
def test_latents_rewards_and_predictions():
    net = latent_model(SPACE, Discrete(n=4), MuZeroConfig(hidden_sizes=(16, 8)))
    params = net.init(jax.random.key(0))
    seen = {"observation": jax.random.normal(jax.random.key(1), (2, 5, 3)), "action_mask": jnp.ones((2, 5, 4), bool)}
    latent = net.represent(params, seen)
    assert latent.shape == (2, 5, 8)
    np.testing.assert_allclose(latent.min(-1), 0.0, atol=1e-6)
    np.testing.assert_allclose(latent.max(-1), 1.0, atol=1e-6)
    policy, value = net.predict(params, latent)
    assert policy.logits.shape == (2, 5, 4) and value.shape == (2, 5)
    nexts = [net.advance(params, latent, jnp.full((2, 5), action)) for action in (0, 1)]
    assert nexts[0][0].shape == latent.shape and nexts[0][1].shape == (2, 5)
    assert float(jnp.abs(nexts[0][0] - nexts[1][0]).max()) > 1e-3, "actions lead to different latents"
    other = net.represent(params, seen | {"action_mask": jnp.zeros((2, 5, 4), bool)})
    np.testing.assert_array_equal(latent, other)


@pytest.mark.long
def test_actions_of_any_space_are_seen():
    space = Dict(spaces={"move": Box(low=-1.0, high=1.0, shape=(2,)), "kind": Discrete(n=3)})
    net = latent_model(SPACE, space, MuZeroConfig(hidden_sizes=(8,)))
    params = net.init(jax.random.key(0))
    seen = {"observation": jnp.zeros((5, 3)), "action_mask": jnp.ones((5, 4), bool)}
    latent = net.represent(params, seen)
    policy, _ = net.predict(params, latent)
    action = policy.sample(seed=jax.random.key(1))
    assert action["move"].shape == (5, 2) and policy.log_prob(action).shape == (5,)
    first = net.advance(params, latent, action)[0]
    for other in (action | {"move": action["move"] + 1}, action | {"kind": (action["kind"] + 1) % 3}):
        assert float(jnp.abs(net.advance(params, latent, other)[0] - first).max()) > 1e-3


def test_unit():
    np.testing.assert_allclose(unit(jnp.array([[1.0, 3.0, 2.0], [4.0, 4.0, 4.0]])), [[0, 1, 0.5], [0, 0, 0]])
