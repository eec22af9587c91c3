"""TQC: the truncated target and the loss by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.tqc import TQCConfig, lowest, tqc
from purerl.errors import InputError
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec
from tests.helpers import replays

OBSERVATION = Box(low=-1.0, high=1.0, shape=(2,))
SPEC = EnvironmentSpec(OBSERVATION, Box(low=-2.0, high=6.0, shape=(1,)))
SIZES = {"hidden_sizes": (8,), "batch_size": 16, "replay_capacity": 256, "learning_starts": 1}
SIZES |= {"num_envs": 4, "rollout_length": 8, "num_critics": 3, "num_quantiles": 4, "num_dropped": 1}


def test_the_lowest_of_all_critics_are_kept():
    quantiles = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
    expected = np.sort(quantiles.transpose(1, 0, 2).reshape(5, 12), axis=1)[:, :9]
    np.testing.assert_array_equal(lowest(jnp.asarray(quantiles), 9), expected)


@pytest.mark.long
def test_the_critics_loss_by_hand(key):
    """Without discount the target is the reward alone, one number, and the loss the quantile Huber loss of it."""
    batch = replays.batch(key, 16, discount=0.0)
    algorithm = tqc(SPEC, TQCConfig(**SIZES), replay=replays.fixed(batch))
    agent = algorithm.init(key)
    _, metrics = algorithm.update(agent, key, replays.rollout())
    outputs = replays.critic_outputs(SPEC, TQCConfig(**SIZES), 3, 4)(agent.params["critics"], batch)
    total = 0.0
    for theta in np.asarray(outputs, np.float64):
        for i, tau in enumerate((np.arange(4) + 0.5) / 4):
            u = np.asarray(batch.reward) - theta[:, i]
            huber = np.where(np.abs(u) < 1, 0.5 * u**2, np.abs(u) - 0.5)
            total += np.mean(np.abs(tau - (u < 0)) * huber) / 4
    assert float(metrics["critic_loss"]) == pytest.approx(total, rel=1e-4)


@pytest.mark.long
def test_the_target_is_the_lowest_quantiles_less_the_log_policy(key):
    """With all quantiles of the targets at 3 each target is r + discount (3 - temperature log pi)."""
    batch = replays.batch(key, 16, discount=0.9)
    config = TQCConfig(**SIZES, initial_temperature=1e-12)
    algorithm = tqc(SPEC, config, replay=replays.fixed(batch))
    agent = algorithm.init(key)
    constant = jax.tree.map(jnp.zeros_like, agent.target_params)
    constant = jax.tree_util.tree_map_with_path(
        lambda path, x: x + 3.0 if "head" in str(path) and x.shape == (4,) else x, constant
    )
    _, metrics = algorithm.update(agent._replace(target_params=constant), key, replays.rollout())
    outputs = replays.critic_outputs(SPEC, config, 3, 4)(agent.params["critics"], batch)
    aim, total = np.asarray(batch.reward) + 0.9 * 3.0, 0.0
    for theta in np.asarray(outputs, np.float64):
        for i, tau in enumerate((np.arange(4) + 0.5) / 4):
            u = aim - theta[:, i]
            total += np.mean(np.abs(tau - (u < 0)) * np.where(np.abs(u) < 1, 0.5 * u**2, np.abs(u) - 0.5)) / 4
    assert float(metrics["critic_loss"]) == pytest.approx(total, rel=1e-4)


def test_refusals():
    with pytest.raises(InputError, match="tqc: num_dropped 4 leaves none of num_quantiles 4"):
        tqc(SPEC, TQCConfig(**{**SIZES, "num_dropped": 4}))
    with pytest.raises(InputError, match="tqc: needs continuous actions"):
        tqc(EnvironmentSpec(OBSERVATION, Discrete(n=2)), TQCConfig(**SIZES))
