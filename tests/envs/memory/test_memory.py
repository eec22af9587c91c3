"""The memory family against plain Python that sees only observations, and what can be reached without memory."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.ppo import PPOConfig, ppo
from purerl.envs.memory.autoencode import Autoencode
from purerl.envs.memory.position_only_cartpole import PositionOnlyCartPole
from purerl.envs.memory.repeat_previous import RepeatPrevious
from purerl.envs.memory.t_maze import EAST, NORTH, SOUTH, WEST, TMaze
from purerl.loop.train import make_train

NUM = 500


def episodes(env, length, policy, key):
    """Run NUM episodes of `length` steps; `policy` maps (key, state, observation) to an action."""

    def one(key):
        def body(loop_carry, key):
            state, observation = loop_carry
            action = policy(key, state, observation)
            state, step = env.step(key, state, action)
            return (state, step.observation), (observation, action, step)

        keys = jax.random.split(key, length + 1)
        return jax.lax.scan(body, env.reset(keys[0]), keys[1:])[1]

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(jax.random.split(key, NUM)))


def uniform(num_actions):
    return lambda key, state, observation: jax.random.randint(key, (), 0, num_actions, jnp.int32)


@pytest.mark.long
def test_repeat_previous(key):
    env = RepeatPrevious(num_symbols=3, lag=2, length=12)
    seen, action, step = episodes(env, 12, uniform(3), key)
    symbols = seen.argmax(-1)
    np.testing.assert_array_equal(seen.sum(-1), 1)
    expected = np.zeros((NUM, 12))
    expected[:, 2:] = np.where(action[:, 2:] == symbols[:, :-2], 0.1, -0.1)
    np.testing.assert_allclose(step.reward, expected, atol=1e-6)
    np.testing.assert_array_equal(step.terminated, np.arange(12) == np.full((NUM, 1), 11))
    # without memory: independent symbols make every answer right with probability 1/3
    assert abs(step.reward.sum(1).mean() - (2 / 3 - 1)) < 0.05
    np.testing.assert_allclose(np.bincount(symbols.ravel()) / symbols.size, 1 / 3, atol=0.02)

    remembered = episodes(env, 12, lambda key, state, observation: state.symbols[-1], key)[2]
    np.testing.assert_allclose(remembered.reward.sum(1), 1, atol=1e-5)


@pytest.mark.long
def test_autoencode(key):
    env = Autoencode(num_symbols=4, length=5)
    seen, action, step = episodes(env, 10, uniform(4), key)
    symbols = seen[:, :5, :4].argmax(-1)
    np.testing.assert_array_equal(seen[:, :5, :4].sum(-1), 1)
    np.testing.assert_array_equal(seen[:, :, 4], np.tile(np.arange(10) < 5, (NUM, 1)))
    np.testing.assert_array_equal(seen[:, 5:, :4], 0)
    expected = np.zeros((NUM, 10))
    expected[:, 5:] = np.where(action[:, 5:] == symbols[:, ::-1], 0.2, -0.2)
    np.testing.assert_allclose(step.reward, expected, atol=1e-6)
    np.testing.assert_array_equal(step.terminated, np.tile(np.arange(10) == 9, (NUM, 1)))
    assert abs(step.reward.sum(1).mean() - (2 / 4 - 1)) < 0.06

    def reversed_order(key, state, observation):
        return state.symbols[jnp.clip(9 - state.time, 0, 4)]

    np.testing.assert_allclose(episodes(env, 10, reversed_order, key)[2].reward.sum(1), 1, atol=1e-5)


def test_t_maze(key):
    env = TMaze(corridor_length=3, time_limit=30)
    step = jax.jit(env.step)
    rng, endings = np.random.default_rng(0), []
    for episode in range(60):
        state, observation = env.reset(jax.random.key(episode))
        north = bool(observation[0] == 1)
        np.testing.assert_array_equal(observation, [north, not north, 0, 0])
        position, over = 0, False
        for time in range(1, 31):
            action = int(rng.choice(4, p=[0.1, 0.6, 0.1, 0.2]))
            state, result = step(key, state, jnp.int32(action))
            moved = (action == EAST and position < 3) or (action == WEST and position > 0)
            over = position == 3 and action in (NORTH, SOUTH)
            reward = 0.0 if moved else -0.1
            if over and (action == NORTH) == north:
                reward = 4.0
            position += {EAST: 1, WEST: -1}[action] if moved else 0
            assert np.isclose(result.reward, reward)
            assert bool(result.terminated) == over
            assert bool(result.truncated) == (time == 30 and not over)
            where = [position == 0 and north, position == 0 and not north, 0 < position < 3, position == 3]
            np.testing.assert_array_equal(result.observation, where)
            if over:
                break
        endings.append(reward if over else "truncated")
    assert {4.0, -0.1, "truncated"} >= set(endings) >= {4.0, -0.1}


def test_position_only_cartpole():
    """Gymnasium's cart and pole, of which two coordinates are seen."""
    env, oracle = PositionOnlyCartPole(), gymnasium.make("CartPole-v1", disable_env_checker=True)
    step, rng = jax.jit(env.step), np.random.default_rng(0)
    for episode in range(5):
        state, observation = env.reset(jax.random.key(episode))
        oracle.reset()
        oracle.unwrapped.state = np.array(state[:4], np.float64)
        np.testing.assert_array_equal(observation, np.array(state)[[0, 2]])
        over = False
        while not over:
            action = rng.integers(2)
            state, result = step(jax.random.key(0), state, jnp.int32(action))
            seen, reward, terminated, truncated, _ = oracle.step(action)
            np.testing.assert_allclose(result.observation, seen[[0, 2]], atol=1e-5)
            assert env.observation_space.contains(result.observation) and result.reward == reward
            assert (bool(result.terminated), bool(result.truncated)) == (terminated, truncated)
            over = terminated or truncated


@pytest.mark.slow
@pytest.mark.parametrize(
    ("core", "low", "high"),
    [("none", -0.45, -0.2), ("gru", 0.97, 1.0), ("lru", 0.97, 1.0), ("mingru", 0.75, 1.0)],  # that one is slower here
)
def test_only_an_agent_with_memory_solves_repeat_previous(core, low, high, key):
    env = RepeatPrevious(num_symbols=3, lag=2, length=22)
    config = PPOConfig(
        rnn=core, num_envs=64, rollout_length=22, total_timesteps=200_000, learning_rate=1e-3, discount=0.5
    )
    metrics = jax.jit(make_train(ppo, env, config, total_timesteps=200_000))(key)[1]
    assert low <= np.mean(metrics.episodes["episode_return"][-5:]) <= high + 1e-5
