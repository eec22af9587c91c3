"""CrossQ: its critics' loss by hand, and what it leaves out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.crossq import CrossQConfig, crossq
from purerl.errors import InputError
from purerl.networks.batch_norm import normed_critics
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec
from tests.helpers import replays

OBSERVATION = Box(low=-1.0, high=1.0, shape=(2,))
SPEC = EnvironmentSpec(OBSERVATION, Box(low=-2.0, high=6.0, shape=(1,)))
SIZES = {"hidden_sizes": (8,), "critic_hidden_sizes": (8,), "batch_size": 16, "replay_capacity": 256}
SIZES |= {"learning_starts": 1, "num_envs": 4, "rollout_length": 8, "policy_period": 1}


def certain(agent):
    """The agent with a policy that always draws tanh(.3), and no weight on entropy."""
    head = agent.params["actor"]["head"]
    narrow = {"bias": jnp.array([0.3, -18.0]), "kernel": jnp.zeros_like(head["kernel"])}
    actor = agent.params["actor"] | {"head": narrow}
    return agent._replace(params=agent.params | {"actor": actor, "log_temperature": jnp.float32(-30.0)})


@pytest.mark.long_for("0")
@pytest.mark.parametrize("warmup", [1, 0])
def test_both_losses_by_hand(key, monkeypatch, warmup):
    """One batch of both: 32 rows share their statistics, and the second half makes the targets of the first."""
    replays.know_policy(monkeypatch)
    config = CrossQConfig(**SIZES, initial_temperature=0.7, renorm_warmup=warmup)
    batch = replays.batch(key, 16, discount=0.9)
    algorithm = crossq(SPEC, config, replay=replays.fixed(batch))
    agent = algorithm.init(key)
    learned, metrics = jax.jit(algorithm.update)(agent, key, replays.rollout())

    networks = normed_critics(OBSERVATION, 1, config, hidden_sizes=config.critic_hidden_sizes, num=2)
    known = jnp.full((16, 1), jnp.tanh(replays.ACTION))
    observation = jnp.concatenate([batch.observation, batch.next_observation])
    action = jnp.concatenate([(batch.action - 2.0) / 4.0, known])
    values, statistics = networks.train(
        agent.params["critics"], agent.target_params, observation, action, step=config.tau, warmup=warmup
    )
    values = np.asarray(values, np.float64)
    log_prob = lambda seen: np.asarray(replays.log_probs(seen))
    soft = values[:, 16:].min(axis=0) - 0.7 * log_prob(batch.next_observation)
    errors = values[:, :16] - np.asarray(batch.reward) - 0.9 * soft
    assert float(metrics["critic_loss"]) == pytest.approx(0.5 * np.mean(np.sum(errors**2, axis=0)), rel=1e-4)
    for new, expected in zip(jax.tree.leaves(learned.target_params), jax.tree.leaves(statistics), strict=True):
        np.testing.assert_allclose(new, expected, rtol=1e-5, atol=1e-6)  # the running statistics, and no network

    climbed = np.asarray(networks.apply(learned.params["critics"], statistics, batch.observation, known)).min(axis=0)
    climbed = climbed - 0.7 * log_prob(batch.observation)
    assert float(metrics["actor_loss"]) == pytest.approx(-climbed.mean(), rel=1e-4)


@pytest.mark.long
def test_targets_pass_no_gradient(key):
    """With a discount of 1 and the same steps as successors a gradient through the target would vanish."""
    batch = replays.batch(key, 16, discount=1.0)
    algorithm = crossq(SPEC, CrossQConfig(**SIZES), replay=replays.fixed(batch._replace(reward=jnp.ones(16))))
    agent = certain(algorithm.init(key))
    learned, _ = algorithm.update(agent, key, replays.rollout())
    moved = [
        float(jnp.max(jnp.abs(x - y)))
        for x, y in zip(
            jax.tree.leaves(learned.params["critics"]), jax.tree.leaves(agent.params["critics"]), strict=True
        )
    ]
    assert max(moved) > 1e-4


def test_refuses_discrete_actions():
    with pytest.raises(InputError, match="crossq: needs continuous actions"):
        crossq(EnvironmentSpec(OBSERVATION, Discrete(n=2)), CrossQConfig(**SIZES))
