"""MAPPO's critic against NumPy: values in units of their targets' statistics, and Huber's loss."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.mappo import MAPPOConfig
from purerl.algos.ppo import ppo
from purerl.functional.normalize import RunningStatistics
from tests.algos.test_ppo import CONFIG, numpy_advantage, updated
from tests.helpers.policy_table import PARAMS, SPEC, B, T, float64, make_rollout, table


def test_the_config_is_still_found_where_it_was():
    module = importlib.import_module("purerl.algos.ppo")
    assert module.MAPPOConfig is MAPPOConfig
    with pytest.raises(AttributeError, match="no attribute Other"):
        _ = module.Other


@pytest.mark.long_for("9.0-False")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("variance", [9.0, 1e-4])  # the second is below the least, 0.01
def test_normalized_values_against_a_loop(masked, variance):
    """The critic predicts in units of the targets: advantages in units of the reward, its loss in its own."""
    mask = np.random.default_rng(3).random((T, B)) < 0.6 if masked else np.ones((T, B), bool)
    rollout = make_rollout()._replace(mask=jnp.asarray(mask) if masked else None)
    config = MAPPOConfig(**{**vars(CONFIG), "normalize_value": True, "normalize_advantage": False})
    fresh = ppo(SPEC, config, network=table).init(jax.random.key(0))
    assert fresh.value_statistics == RunningStatistics(samples=0.0, mean=0.0, variance=1.0)
    seen = RunningStatistics(samples=jnp.float32(12), mean=jnp.float32(2), variance=jnp.float32(variance))
    agent, told = updated(config, rollout, fresh._replace(value_statistics=seen))

    old_std = max(variance, 0.01) ** 0.5
    raw, state = float64(PARAMS)["value"], np.asarray(rollout.observation[..., 0], int)
    values = raw * old_std + 2.0
    advantage = numpy_advantage(values, jax.tree.map(np.asarray, rollout), config)
    target = (values[state] + advantage)[mask]
    total = 12 + mask.sum()
    mean = (12 * 2.0 + target.sum()) / total
    new = (12 * (variance + (2.0 - mean) ** 2) + ((target - mean) ** 2).sum()) / total
    assert round(float(agent.value_statistics.samples)) == total
    np.testing.assert_allclose(agent.value_statistics.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(agent.value_statistics.variance, new, rtol=1e-5)
    error = raw[state][mask] - (target - mean) / new**0.5
    np.testing.assert_allclose(told["value_loss"], 0.5 * (error**2).mean(), rtol=1e-4)
    explained = 1 - advantage[mask].var() / target.var()
    np.testing.assert_allclose(told["explained_variance"], explained, rtol=1e-3, atol=1e-4)
    log_probs = PARAMS["logits"] - np.log(np.exp(PARAMS["logits"]).sum(-1, keepdims=True))
    action = np.asarray(rollout.action)[..., None]
    ratio = np.exp(np.take_along_axis(log_probs[state], action, -1)[..., 0] - rollout.extras["log_prob"])
    policy = -np.minimum(ratio * advantage, np.clip(ratio, 0.9, 1.1) * advantage)[mask].mean()
    np.testing.assert_allclose(told["policy_loss"], policy, rtol=1e-4)


@pytest.mark.long
def test_the_values_clip_is_in_the_units_of_the_critic():
    """Values that the critic has not moved are within the clip, however the statistics have changed."""
    config = MAPPOConfig(**{**vars(CONFIG), "normalize_value": True})
    rollout = make_rollout()._replace(reward=make_rollout().reward * 50.0 + 300.0)
    clipped, plain = updated(config, rollout)[1], updated(config, rollout, value_clip=None)[1]
    np.testing.assert_allclose(clipped["value_loss"], plain["value_loss"], rtol=1e-5)
    assert plain["value_loss"] < 3.0  # with targets of 1000


@pytest.mark.parametrize("delta", [0.3, 1e6])
def test_hubers_loss_of_values(delta):
    config = MAPPOConfig(**{**vars(CONFIG), "value_clip": None, "value_huber_delta": delta})
    rollout, old = make_rollout(), float64(PARAMS)["value"]
    error = np.abs(numpy_advantage(old, jax.tree.map(np.asarray, rollout), config))
    loss = np.where(error <= delta, error**2 / 2, delta * (error - delta / 2)).mean()
    np.testing.assert_allclose(updated(config, rollout)[1]["value_loss"], loss, rtol=1e-5)
