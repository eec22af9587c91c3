"""Schedules by hand: one counter of updates drives the learning rate and the exploration."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from purerl import make
from purerl.algos.dqn import DQNConfig
from purerl.algos.ppo import PPOConfig, ppo
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional.exploration import epsilon_greedy
from purerl.loop.train import make_trainer
from purerl.optim.schedules import SCHEDULES, environment_steps, scheduled, updates_of


def test_the_learning_rate_stays_or_falls_to_zero_over_the_run():
    plain = DQNConfig(learning_rate=3e-4)
    assert scheduled(plain, jnp.int32(7)) is plain
    falling = DQNConfig(
        learning_rate=3e-4, learning_rate_schedule="linear", num_envs=5, rollout_length=4, total_timesteps=1_000
    )
    found = [float(scheduled(falling, jnp.int32(n)).learning_rate) for n in (0, 25, 49, 50, 200)]  # out of 50 updates
    np.testing.assert_allclose(found, [3e-4, 1.5e-4, 6e-6, 0, 0], rtol=1e-5)


def test_numbers_may_be_traced():
    one = lambda rate, steps: scheduled(
        PPOConfig(learning_rate=rate, total_timesteps=steps, num_envs=2, rollout_length=5), jnp.int32(2)
    ).learning_rate
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


@pytest.mark.long
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


def _numpy(name, share):
    cosine = lambda x: 0.5 * (1 + np.cos(np.pi * min(x, 1.0)))
    warm = lambda x: x / 0.05 if x < 0.05 else cosine((x - 0.05) / 0.95)
    return {"constant": lambda x: 1.0, "linear": lambda x: max(1 - x, 0.0), "cosine": cosine, "warmup-cosine": warm}[
        name
    ](share)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_by_hand(name):
    config = DQNConfig(
        learning_rate=3e-4, learning_rate_schedule=name, num_envs=5, rollout_length=4, total_timesteps=2_000
    )
    for n in (0, 1, 4, 5, 50, 99, 100, 150):
        found = float(scheduled(config, jnp.int32(n)).learning_rate)
        np.testing.assert_allclose(found, 3e-4 * _numpy(name, n / 100), rtol=1e-5, atol=1e-10)


def test_a_function_is_a_schedule_too_and_every_number_follows_its_own():
    steps = lambda share: jnp.where(share < 0.5, 1.0, 0.1)
    config = PPOConfig(
        learning_rate_schedule=steps,
        entropy_coefficient_schedule="linear",
        num_envs=2,
        rollout_length=5,
        total_timesteps=100,
    )
    validate(config, "ppo")
    late = scheduled(config, jnp.int32(6))
    np.testing.assert_allclose(late.learning_rate, 2.5e-5, rtol=1e-6)
    np.testing.assert_allclose(late.entropy_coefficient, 0.01 * 0.4, rtol=1e-6)
    assert late.clip_epsilon == config.clip_epsilon, "a number without a schedule stays as it is"
    with pytest.raises(InputError, match=r"learning_rate_schedule is 'lineal'; allowed: constant, .* or a function"):
        validate(PPOConfig(learning_rate_schedule="lineal"), "ppo")


@pytest.mark.long
def test_ppo_clips_and_rewards_entropy_by_the_schedules():
    """With both schedules at 0 the update is that of a config whose numbers are (nearly) 0 from the start."""
    env, zero = make("CartPole-v1"), lambda share: share * 0.0 + 1e-6
    common = {"num_envs": 2, "rollout_length": 8, "num_minibatches": 1, "num_epochs": 2, "learning_rate": 0.01}
    common |= {"hidden_sizes": (8,)}
    by_schedule = PPOConfig(**common, clip_epsilon_schedule=zero, entropy_coefficient_schedule=zero)
    at_once = PPOConfig(**common, clip_epsilon=0.2 * 1e-6, entropy_coefficient=0.01 * 1e-6)

    @jax.jit
    def metrics(config):
        trainer = make_trainer(ppo, env, config)
        return trainer.step(trainer.init(jax.random.key(0)))[1].algorithm

    found = [metrics(config) for config in (by_schedule, at_once, PPOConfig(**common))]
    assert float(found[0]["clip_fraction"]) == float(found[1]["clip_fraction"]) > float(found[2]["clip_fraction"])
    np.testing.assert_allclose(found[0]["policy_loss"], found[1]["policy_loss"], rtol=1e-4)


def test_more_steps_per_update_than_an_integer_holds():
    """6.4e9 steps in an update, which raised an OverflowError."""
    config = PPOConfig(num_envs=50_000_000, rollout_length=128, total_timesteps=6_400_000_000 * 4)
    assert float(environment_steps(config, jnp.int32(2))) == pytest.approx(1.28e10)
    assert float(scheduled(config, jnp.int32(2)).learning_rate) == pytest.approx(1.25e-4)
