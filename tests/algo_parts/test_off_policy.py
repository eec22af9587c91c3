"""The learning rate of algorithms with a replay."""

import numpy as np

from purerl.algo_parts.off_policy import step_size
from purerl.algos.dqn import DQNConfig


def test_the_learning_rate_stays_or_falls_to_zero_with_the_run():
    plain = DQNConfig(learning_rate=3e-4)
    assert step_size(plain) == 3e-4
    falling = DQNConfig(
        learning_rate=3e-4,
        anneal_learning_rate=True,
        num_envs=5,
        rollout_length=4,
        num_gradient_steps=2,
        total_timesteps=1_000,
    )  # a gradient step every 10 environment steps: 100 in all
    schedule = step_size(falling)
    np.testing.assert_allclose([schedule(count) for count in (0, 25, 50, 100, 200)], [3e-4, 2.25e-4, 1.5e-4, 0, 0])
    seldom = step_size(falling, period=2)  # what steps at every second gradient step
    np.testing.assert_allclose([seldom(count) for count in (0, 25, 50)], [3e-4, 1.5e-4, 0])
