"""The trainer of self-play: its policy, and who plays on its own."""

import jax
import numpy as np
import pytest

from purerl.algos.a2c import A2CConfig, a2c
from purerl.envs.games.coin_game import CoinGame
from purerl.extensions.self_play.extension import SelfPlayOptions
from purerl.training import make_trainer

CONFIG = A2CConfig(num_envs=8, rollout_length=4, hidden_sizes=(4,), total_timesteps=320)


@pytest.mark.long
def test_the_learner_is_the_policy_and_plays_both_sides():
    trainer = make_trainer(a2c, CoinGame(), CONFIG, {"self_play": SelfPlayOptions(self_play=2)})
    agent = trainer.init(jax.random.key(0)).agent
    (policy,) = trainer.policies.values()
    assert policy.factory is a2c and policy.config.learning_rate == CONFIG.learning_rate
    jax.tree.map(np.testing.assert_array_equal, policy.select(agent).params, agent.learner["self"].params)
    algorithm, both = trainer.player(agent)
    assert set(both) == {"blue", "red"} and algorithm is not trainer.algorithm
