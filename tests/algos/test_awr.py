"""AWR: its weights and its loss by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.awr import AWRConfig, awr, weights
from purerl.functional.distributions import Categorical
from purerl.networks.actor_critic import ActorCritic
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec
from tests.helpers import replays

SPEC = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(2,)), Discrete(n=3))
SIZES = {"batch_size": 16, "replay_capacity": 256, "learning_starts": 1, "num_envs": 4, "rollout_length": 8}
LOGITS = np.array([0.2, -0.3, 0.1])


def table(space, head, config):
    """One policy for every observation; the value is a parameter times the observation's first number."""
    policy = lambda params, observation: Categorical(jnp.broadcast_to(params["logits"], (*observation.shape[:-1], 3)))
    return ActorCritic(
        init=lambda key: {"logits": jnp.asarray(LOGITS, jnp.float32), "slope": jnp.float32(0.5)},
        initial_carry=lambda num_envs: (),
        policy=lambda params, carry, observation: (policy(params, observation), ()),
        value=lambda params, carry, observation: params["slope"] * observation[..., 0],
        unroll=lambda params, carry, observation, done: None,
    )


@pytest.mark.parametrize("normalize", [False, True])
def test_weights_by_hand(normalize):
    advantage, counted = np.array([-1.0, 0.0, 2.0, 9.0, 50.0]), jnp.arange(5) < 4  # the last holds no transition
    config = AWRConfig(temperature=0.5, max_weight=20.0, normalize_advantage=normalize)
    scaled = advantage / advantage[:4].std() if normalize else advantage
    expected = np.minimum(np.exp(scaled / 0.5), 20.0)
    np.testing.assert_allclose(weights(jnp.asarray(advantage, jnp.float32), counted, config), expected, rtol=1e-5)


@pytest.mark.long
def test_the_loss_by_hand(key):
    action = jnp.arange(16, dtype=jnp.int32) % 3
    batch = replays.batch(key, 16, discount=0.9, action=action)
    config = AWRConfig(**SIZES, num_gradient_steps=1, normalize_advantage=False, reward_scale=2.0)
    algorithm = awr(SPEC, config, network=table, replay=replays.fixed(batch))
    agent = algorithm.init(key)
    target = {"logits": jnp.full(3, 9.0), "slope": jnp.float32(-0.25)}  # unlike the network
    learned, metrics = algorithm.update(agent._replace(target_params=target), key, replays.rollout(jnp.zeros((8, 4))))

    first, following, reward = (np.asarray(x) for x in (batch.observation, batch.next_observation, batch.reward))
    aim = 2.0 * reward + 0.9 * -0.25 * following[:, 0]
    weight = np.minimum(np.exp(aim + 0.25 * first[:, 0]), 20.0)
    log_pi = LOGITS - np.log(np.sum(np.exp(LOGITS)))
    assert float(metrics["weight"]) == pytest.approx(weight.mean(), rel=1e-5)
    assert float(metrics["policy_loss"]) == pytest.approx(-np.mean(weight * log_pi[np.asarray(action)]), rel=1e-4)
    assert float(metrics["value_loss"]) == pytest.approx(0.5 * np.mean((0.5 * first[:, 0] - aim) ** 2), rel=1e-4)
    moved = jax.tree.map(
        lambda new, old, start: (new - old) / (start - old), learned.target_params, target, agent.params
    )
    np.testing.assert_allclose(moved["logits"], config.tau, rtol=0.1)  # the target follows by tau
