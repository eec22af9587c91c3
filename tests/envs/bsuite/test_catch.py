"""Catch against the rules, played in plain Python."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.registry import make


def test_every_ball_and_random_paddles():
    env = make("Catch")
    step = jax.jit(env.step)
    rng, key, rewards = np.random.default_rng(0), jax.random.key(0), []
    for episode in range(40):
        state, _ = env.reset(key)
        ball = episode % 5
        state = state._replace(ball_column=jnp.int32(ball))
        paddle = 2
        for row in range(1, 10):
            action = int(rng.integers(3))
            paddle = min(max(paddle + action - 1, 0), 4)
            state, time_step = step(key, state, jnp.int32(action))
            board = np.zeros((10, 5), np.float32)
            board[row, ball] = board[9, paddle] = 1
            np.testing.assert_array_equal(time_step.observation, board)
            assert bool(time_step.terminated) == (row == 9)
            assert not time_step.truncated
            caught = 1.0 if paddle == ball else -1.0
            assert float(time_step.reward) == (caught if row == 9 else 0.0)
        rewards.append(float(time_step.reward))
    assert set(rewards) == {-1.0, 1.0}


def test_start():
    env = make("Catch", rows=7, columns=4)
    state, observation = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 400))
    assert observation.shape == (400, 7, 4)
    np.testing.assert_array_equal(np.bincount(np.asarray(state.ball_column)) > 60, [True] * 4)
    np.testing.assert_array_equal(observation[:, 6], np.tile([0, 0, 1, 0], (400, 1)))
    np.testing.assert_array_equal(observation[:, 1:6].sum(), 0)
