"""MPO: its weights and its losses by hand, over discrete and continuous actions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.mpo import MPOConfig, mpo, normal_actor_critic, weights
from purerl.errors import InputError
from purerl.functional.distributions import Normal
from purerl.networks.q_networks import q_network
from purerl.optim.trust_region import LEAST
from purerl.spaces import Box, Discrete, MultiDiscrete
from purerl.types import EnvironmentSpec, Rollout
from tests.helpers import replays

OBSERVATION = Box(low=-1.0, high=1.0, shape=(2,))
ACTION = Box(low=-2.0, high=6.0, shape=(1,))
SIZES = {"hidden_sizes": (8,), "batch_size": 16, "replay_capacity": 256, "learning_starts": 1}
SIZES |= {"num_envs": 4, "rollout_length": 8}


def softmax(x):
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_weights_by_hand():
    value, share = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]]), np.array([[0.5, 0.2], [0.25, 0.3], [0.25, 0.5]])
    weight, log_mean = weights(
        jnp.asarray(value, jnp.float32), jnp.log(jnp.asarray(share, jnp.float32)), jnp.float32(2)
    )
    powers = share * np.exp(value / 2.0)
    np.testing.assert_allclose(weight, powers / powers.sum(axis=0), rtol=1e-6)
    np.testing.assert_allclose(log_mean, np.log(powers.sum(axis=0)), rtol=1e-5)


def test_the_losses_of_discrete_actions_by_hand(key):
    """All expectations are exact there, so NumPy on the networks' outputs gives every term."""
    config = MPOConfig(**SIZES, initial_temperature=0.7, discount=0.9, reward_scale=2.0)
    batch = replays.batch(key, 16, 0.9, action=jnp.arange(16, dtype=jnp.int32) % 3)
    algorithm = mpo(EnvironmentSpec(OBSERVATION, Discrete(n=3)), config, replay=replays.fixed(batch))
    agent = algorithm.init(key)
    target = jax.tree.map(lambda x: x + 0.1, agent.params["networks"])  # unlike the networks
    agent = agent._replace(target_params=target)
    _, metrics = algorithm.update(agent, key, replays.rollout(jnp.zeros((8, 4), jnp.int32)))

    outputs = q_network(OBSERVATION, 3, config)
    run = lambda params, observation: np.asarray(outputs.apply(params, observation, None), np.float64)
    networks = agent.params["networks"]
    least = lambda observation: np.minimum(*(run(part, observation) for part in target["critics"]))
    following = softmax(run(target["actor"], batch.next_observation))
    aim = 2.0 * np.asarray(batch.reward) + 0.9 * (following * least(batch.next_observation)).sum(axis=1)
    taken = [run(part, batch.observation)[np.arange(16), batch.action] for part in networks["critics"]]
    critic_loss = 0.5 * np.mean(sum((q - aim) ** 2 for q in taken))
    assert float(metrics["critic_loss"]) == pytest.approx(critic_loss, rel=1e-4)

    t = 0.7 + LEAST
    assert float(metrics["temperature"]) == pytest.approx(t, rel=1e-5)
    old, new = softmax(run(target["actor"], batch.observation)), softmax(run(networks["actor"], batch.observation))
    powers = old * np.exp(least(batch.observation) / t)
    weight = powers / powers.sum(axis=1, keepdims=True)
    assert float(metrics["policy_loss"]) == pytest.approx(-np.mean((weight * np.log(new)).sum(axis=1)), rel=1e-4)
    assert float(metrics["kl"]) == pytest.approx(np.mean((old * np.log(old / new)).sum(axis=1)), rel=1e-3, abs=1e-6)


@pytest.mark.long
def test_the_first_values_of_a_continuous_policy_are_half_a_half_width_wide(key):
    config = MPOConfig(**{**SIZES, "num_envs": 4096, "replay_capacity": 65_536})
    algorithm = mpo(EnvironmentSpec(OBSERVATION, ACTION), config)
    agent = algorithm.init(key)._replace(num_updates=jnp.int32(10))
    action, _, _ = algorithm.act(agent, (), key, jnp.zeros((4096, 2)), True)
    unit = np.asarray((action - 2.0) / 4.0)
    expected = np.clip(0.501 * np.random.default_rng(0).normal(size=100_000), -1, 1)
    assert np.std(unit) == pytest.approx(np.std(expected), rel=0.04) and np.abs(unit).max() <= 1.0
    greedy, _, _ = algorithm.act(agent, (), key, jnp.zeros((4096, 2)), False)
    np.testing.assert_allclose(greedy, 2.0, atol=1e-3)  # the middle of the box


@pytest.mark.long
def test_a_continuous_policy_moves_to_the_action_of_most_value(key):
    """A bandit whose reward is highest at 4 of a box from -2 to 6; its mean gets there, and the KL stays bounded."""
    config = MPOConfig(**{**SIZES, "num_gradient_steps": 8, "learning_rate": 3e-3, "tau": 0.05})
    algorithm = mpo(EnvironmentSpec(OBSERVATION, ACTION), config)
    zeros, ends = jnp.zeros((8, 4, 2)), jnp.ones((8, 4), bool)

    @jax.jit
    def once(agent, key):
        keys = jax.random.split(key, 9)
        action = jnp.stack([algorithm.act(agent, (), k, zeros[0], True)[0] for k in keys[:8]])
        reward = -jnp.abs(action[..., 0] - 4.0)
        return algorithm.update(agent, keys[8], Rollout(zeros, action, reward, ends, ~ends, zeros, (), ()))

    agent, metrics = algorithm.init(key), {}
    for i in range(120):
        agent, metrics = once(agent, jax.random.fold_in(key, i))
    greedy, _, _ = algorithm.act(agent, (), key, zeros[0], False)
    np.testing.assert_allclose(greedy, 4.0, atol=0.7)
    assert float(metrics["kl"]) < 0.1


@pytest.mark.long
def test_a_mean_is_fitted_with_the_old_spread_and_a_spread_with_the_old_mean():
    """The gradient of the likelihood with respect to the mean does not depend on the new spread, nor the reverse."""
    parts = normal_actor_critic(EnvironmentSpec(OBSERVATION, ACTION), MPOConfig(**SIZES), None)
    old, draws = Normal(jnp.zeros((1, 1)), jnp.zeros((1, 1))), jnp.full((1, 1, 1), 0.8)

    def slope(mean, log_std, argument):
        total = lambda mean, log_std: jnp.sum(parts.log_prob(Normal(mean, log_std), old, draws))
        return float(jax.grad(total, argnums=argument)(mean, log_std)[0, 0])

    column = lambda x: jnp.full((1, 1), x)
    assert slope(column(0.2), column(-1.0), 0) == slope(column(0.2), column(1.0), 0) == pytest.approx(0.8 - 0.2)
    assert slope(column(0.2), column(-1.0), 1) == slope(column(0.9), column(-1.0), 1)


def test_refuses_actions_of_another_form():
    with pytest.raises(InputError, match="mpo: needs continuous actions"):
        mpo(EnvironmentSpec(OBSERVATION, MultiDiscrete(nvec=(2, 2))), MPOConfig(**SIZES))
