"""The methods of the table are what their names say, and all train from the same keys."""

import jax
import numpy as np
import pytest

import purerl
from purerl.algos.lpg import LPGConfig, lpg
from purerl.algos.ppo import PPOConfig
from purerl.evolution.inner_loop import Plug
from purerl.functional.objectives import ActorCriticLoss, Clip
from purerl.functional.update_rules import LPG
from purerl.loop.train import make_train

pytestmark = pytest.mark.publish
SMALL = {"num_envs": 4, "rollout_length": 9, "num_epochs": 1, "num_minibatches": 1, "learning_rate": 1e-2}


@pytest.fixture
def small(script, monkeypatch):
    """The tool with a small config."""
    monkeypatch.setattr(script, "CONFIG", {**SMALL, "network": "mlp", "hidden_sizes": (4,)})
    return script


def test_the_rows_of_the_table_are_what_they_are_called(small):
    """PPO by its loss is PPO by its config, to rounding, and a trial of the tuning is the same with other numbers."""
    rows = small.rivals({"clip_epsilon": 0.1, "learning_rate": 0.02, "clips_value": False})
    assert isinstance(rows["PPO"].loss, ActorCriticLoss) and rows["tuned PPO"].loss.value_clip is None
    scores = small.scores_of("Catch", 72, [rows["PPO"], small.ppo_by(small.whole_loss(Clip(), np.inf))], 2)
    keys = jax.random.split(jax.random.key(0x6F626A), 2)
    config = PPOConfig(**SMALL, network="mlp", hidden_sizes=(4,))
    own = [small.score(make_train(small.ppo, purerl.make("Catch"), config, 72)(key)[1], small.KIND) for key in keys]
    np.testing.assert_allclose(scores[0], own, atol=1e-3)
    assert scores.shape == (2, 2)


def test_a_rule_stands_beside_losses(small):
    """A rule is not a loss of PPO: it trains by its own algorithm and config, from the same keys, in its own row."""
    config = LPGConfig(num_envs=2, rollout_length=9, network="mlp", hidden_sizes=(4,))
    rule = small.Method(Plug(lpg, "rule")(LPG.create(jax.random.key(0), units=4)), config)
    losses = small.rivals({"clip_epsilon": 0.1, "learning_rate": 0.02, "clips_value": False})
    scores = small.scores_of("Catch", 72, [losses["PPO"], rule, losses["DPO"]], 2)
    alone = small.scores_of("Catch", 72, [rule], 2)
    key = jax.random.split(jax.random.key(0x6F626A), 2)[1]
    own = small.score(make_train(rule.factory, purerl.make("Catch"), config, 72)(key)[1], small.KIND)
    np.testing.assert_allclose(scores[1], alone[0])
    np.testing.assert_allclose(scores[1, 1], own, atol=1e-3)
    np.testing.assert_allclose(scores[[0, 2]], small.scores_of("Catch", 72, [losses["PPO"], losses["DPO"]], 2))
