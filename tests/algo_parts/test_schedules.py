"""Schedules by hand: one counter of updates drives the learning rate and the exploration."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from purerl import make
from purerl.algo_parts.exploration import epsilon_greedy
from purerl.algo_parts.schedules import environment_steps, learning_rate, updates_of
from purerl.algos.dqn import DQNConfig
from purerl.algos.ppo import PPOConfig, ppo
from purerl.loop.train import make_trainer


def test_the_learning_rate_stays_or_falls_to_zero_over_the_run():
    plain = DQNConfig(learning_rate=3e-4)
    assert learning_rate(plain, jnp.int32(7)) == 3e-4
    falling = DQNConfig(
        learning_rate=3e-4, anneal_learning_rate=True, num_envs=5, rollout_length=4, total_timesteps=1_000
    )
    found = [float(learning_rate(falling, jnp.int32(n))) for n in (0, 25, 49, 50, 200)]  # of 50 updates
    np.testing.assert_allclose(found, [3e-4, 1.5e-4, 6e-6, 0, 0], rtol=1e-5)


def test_numbers_may_be_traced():
    one = lambda rate, steps: learning_rate(
        PPOConfig(learning_rate=rate, total_timesteps=steps, num_envs=2, rollout_length=5), jnp.int32(2)
    )
    many = jax.vmap(one)(jnp.array([1.0, 2.0]), jnp.array([100.0, 40.0]))
    np.testing.assert_allclose(many, [0.8, 1.0])


def test_steps_beyond_the_largest_integer_are_counted():
    """Half of 1e12 steps, and an exploration that has come to its end."""
    config = DQNConfig(num_envs=1_000, rollout_length=1_000, total_timesteps=10**12, exploration_fraction=0.5)
    half = jnp.int32(500_000)
    assert float(environment_steps(config, half)) == pytest.approx(5e11)
    assert float(epsilon_greedy(config).epsilon(environment_steps(config, half))) == pytest.approx(0.05)
    assert float(epsilon_greedy(config).epsilon(environment_steps(config, half // 2))) == pytest.approx(0.525)


@pytest.mark.parametrize(("starts", "updates"), [(1, 1), (20, 1), (21, 2), (40, 2)])
def test_updates_of_steps_are_rounded_up(starts, updates):
    assert updates_of(DQNConfig(num_envs=5, rollout_length=4), starts) == updates


def test_annealing_counts_updates_that_target_kl_stopped():
    """A bound that stops every update after its first step: the rate in the last update is that of the last update."""
    env = make("CartPole-v1")
    config = PPOConfig(num_envs=2, rollout_length=8, num_minibatches=2, total_timesteps=160, target_kl=1e-9)
    rates = []

    def recorded(plan):
        jax.debug.callback(lambda rate: rates.append(float(rate)), plan.learning_rate)
        return optax.sgd(plan.learning_rate)

    trainer = make_trainer(lambda spec, config: ppo(spec, config, optimizer=recorded), env, config)
    state, step = trainer.init(jax.random.key(0)), jax.jit(trainer.step)
    for _ in range(10):
        state, _ = step(state)
    jax.effects_barrier()
    np.testing.assert_allclose(sorted(set(rates)), 2.5e-4 * np.arange(1, 11) / 10, rtol=1e-5)
