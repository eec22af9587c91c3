"""Squashed policies: their log-probabilities, and actions inside the box."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.functional.distributions import Normal, SquashedNormal
from purerl.networks.encoder import NetworkConfig
from purerl.networks.squashed_policy import squashed_policy
from purerl.spaces import Box
from purerl.types import EnvironmentSpec

SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(2,)), Box(low=-2.0, high=6.0, shape=(1,)))


@pytest.mark.long
def test_log_probability_of_a_squashed_normal_by_numerical_integration():
    """The density of tanh(u) must integrate to one and equal a change of variables in float64."""
    pi = SquashedNormal(Normal(jnp.array([0.3]), jnp.array([-0.5])))
    u = np.linspace(-8, 8, 200_001)
    density = np.exp(np.asarray(jax.vmap(pi.log_prob)(jnp.asarray(u, jnp.float32)[:, None]), np.float64))
    action = np.tanh(u)
    assert np.trapezoid(density, action) == pytest.approx(1.0, abs=1e-3)
    std = np.exp(-0.5)
    for x in (-1.5, 0.0, 2.0):
        expected = -0.5 * ((x - 0.3) / std) ** 2 - np.log(std * np.sqrt(2 * np.pi)) - np.log(1 - np.tanh(x) ** 2)
        assert float(pi.log_prob(jnp.array([x]))) == pytest.approx(expected, rel=1e-5)
    assert jnp.isfinite(pi.log_prob(jnp.array([40.0])))


@pytest.mark.long
def test_actions_are_inside_the_box_and_the_mode_is_that_of_the_normal(key):
    policy = squashed_policy(SPEC, NetworkConfig(hidden_sizes=(4,)), None, "test")
    params = policy.init(*jax.random.split(key))
    observation = jax.random.normal(key, (512, 2))
    sampled, greedy = (policy.act(params, key, observation, explore) for explore in (True, False))
    assert sampled.shape == (512, 1) and bool(jnp.all((sampled >= -2) & (sampled <= 6)))
    assert float(jnp.std(sampled)) > 1.0
    mean = policy.distribution(params, observation).mode()
    np.testing.assert_allclose(greedy, 2.0 + 4.0 * np.tanh(mean), rtol=1e-5)


def test_the_standard_deviation_is_bounded(key):
    policy = squashed_policy(SPEC, NetworkConfig(hidden_sizes=(4,)), None, "sac")
    params = policy.init(key, key)
    for added, log_std in ((50.0, 2.0), (-50.0, -20.0)):
        large = params | {"head": jax.tree.map(lambda x, a=added: x + a if x.ndim == 1 else x, params["head"])}
        assert policy.distribution(large, jnp.zeros(2)).normal.log_std.tolist() == [log_std]
