"""Learning from rollouts of groups: episodes are counted, groups joined, against a list by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.extensions.host.learning import make_learn, metrics_struct, no_episodes, sampler_metrics
from purerl.extensions.host.rollout import GroupRollout
from purerl.types import Algorithm, Config
from tests.extensions.host.ledger import Ledger


def recording():
    """An algorithm whose agent is the last rollout's observations, successors and masks."""

    def update(agent, key, rollout):
        mean = jnp.mean(rollout.reward, where=rollout.mask)
        return (rollout.observation, rollout.next_observation, rollout.mask), {"mean_reward": mean}

    return Algorithm(lambda key: (), lambda num_envs: (), lambda *args: (jnp.zeros(2, jnp.int32), (), ()), update)


def group(score, over, mask, number):
    """A rollout of three steps of two environments whose observations are numbered."""
    observation = [np.full((2, 3), number + t, np.float32) for t in range(3)]
    flags = np.array(over, bool)
    return GroupRollout(
        observation=observation,
        action=[np.zeros(2, np.int32)] * 3,
        reward=np.array(score, np.float32),
        terminated=flags,
        truncated=np.zeros_like(flags),
        mask=np.array(mask, bool),
        next_observation=None,
        last=np.full((2, 3), number + 9, np.float32),
        extras=[()] * 3,
        carry=(),
        score=np.array(score, np.float32),
        over=flags,
    )


def test_groups_are_joined_and_episodes_counted():
    """Four environments in two groups; a masked step only begins an episode and adds nothing."""
    one = group([[1, 2], [3, 50], [5, 6]], [[0, 1], [0, 0], [1, 0]], [[1, 1], [1, 0], [1, 1]], 0)
    two = group([[7, 1], [0, 1], [0, 1]], [[1, 0], [0, 0], [0, 0]], [[1, 1], [0, 1], [1, 1]], 100)
    learn = jax.jit(make_learn(recording(), Ledger()))
    agent = jax.tree.map(lambda x: x, ())
    vector = no_episodes(4, ())
    agent, vector, metrics = learn(agent, vector, jax.random.key(0), jnp.int32(0), (one, two))
    # Ended: environment 0 after 1 + 3 + 5 in three steps, 1 after 2 in one, 2 after 7 in one.
    assert float(metrics.episodes["episodes"]) == 3 and float(metrics.episodes["episode_return"]) == (9 + 2 + 7) / 3
    np.testing.assert_allclose(metrics.episodes["episode_length"], (3 + 1 + 1) / 3)
    np.testing.assert_array_equal(vector.episode_return, [0, 6, 0, 3])
    np.testing.assert_array_equal(vector.episode_length, [0, 1, 1, 3])
    observation, following, mask = agent
    np.testing.assert_array_equal(observation[:, :, 0], [[0, 0, 100, 100], [1, 1, 101, 101], [2, 2, 102, 102]])
    np.testing.assert_array_equal(following[:, :, 0], [[1, 1, 101, 101], [2, 2, 102, 102], [9, 9, 109, 109]])
    np.testing.assert_array_equal(mask, [[1, 1, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1]])
    np.testing.assert_allclose(metrics.algorithm["mean_reward"], (1 + 2 + 3 + 5 + 6 + 7 + 0 + 1 + 1 + 1) / 10)


def test_metrics_of_an_algorithm_without_running_it():
    found = metrics_struct(recording(), Ledger(), Config(num_envs=2, rollout_length=3), ())
    assert set(found) == {"mean_reward"} and found["mean_reward"].dtype == jnp.float32


def test_metrics_of_the_runtime():
    assert sampler_metrics(Config(), None, 2.0, 1.0) == {"policy_lag": 2.0}

    class Replaying(Config):
        replay_ratio = 8.0

    found = sampler_metrics(Replaying(), 0.25, 0.0, 2.0)
    assert found == {"policy_lag": 0.0, "environment_idle": 0.25, "replay_ratio": 4.0}
