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
SIZES |= {"num_envs": 4, "rollout_length": 8, "num_critics": 3, "num_quantiles": 4, "num_dropped": 2}


def test_the_lowest_of_all_critics_are_kept():
    quantiles = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
    expected = np.sort(quantiles.transpose(1, 0, 2).reshape(5, 12), axis=1)[:, :9]
    np.testing.assert_array_equal(lowest(jnp.asarray(quantiles), 9), expected)


@pytest.mark.long
def test_both_losses_by_hand(key, monkeypatch):
    """Two of four quantiles of each critic are dropped: the six lowest of all twelve are left, not two of each."""
    replays.know_policy(monkeypatch)
    config = TQCConfig(**SIZES, initial_temperature=0.7)
    batch = replays.batch(key, 16, discount=0.9)
    algorithm = tqc(SPEC, config, replay=replays.fixed(batch))
    agent = algorithm.init(key)
    agent = agent._replace(target_params=jax.tree.map(lambda x: 1.5 * x + 0.1, agent.params["critics"]))
    learned, metrics = jax.jit(algorithm.update)(agent, key, replays.rollout())

    outputs, at_known = replays.critic_outputs(SPEC, config, 3, 4), replays.known_outputs(SPEC, config, 3, 4)
    pooled = np.asarray(at_known(agent.target_params, batch.next_observation)).transpose(1, 0, 2).reshape(16, 12)
    soft = np.sort(pooled, axis=1)[:, :6] - 0.7 * np.asarray(replays.log_probs(batch.next_observation))[:, None]
    target, total = np.asarray(batch.reward)[:, None] + 0.9 * soft, 0.0
    for theta in np.asarray(outputs(agent.params["critics"], batch), np.float64):
        for i, tau in enumerate((np.arange(4) + 0.5) / 4):
            u = target - theta[:, i, None]
            huber = np.where(np.abs(u) < 1, 0.5 * u**2, np.abs(u) - 0.5)
            total += np.mean(np.abs(tau - (u < 0)) * huber) / 4
    assert float(metrics["critic_loss"]) == pytest.approx(total, rel=1e-4)

    value = np.asarray(at_known(learned.params["critics"], batch.observation)).mean(axis=(0, 2))
    climbed = value - 0.7 * np.asarray(replays.log_probs(batch.observation))
    assert float(metrics["actor_loss"]) == pytest.approx(-climbed.mean(), rel=1e-4)


def test_refusals():
    with pytest.raises(InputError, match="tqc: num_dropped 4 leaves none of num_quantiles 4"):
        tqc(SPEC, TQCConfig(**{**SIZES, "num_dropped": 4}))
    with pytest.raises(InputError, match="tqc: needs continuous actions"):
        tqc(EnvironmentSpec(OBSERVATION, Discrete(n=2)), TQCConfig(**SIZES))
