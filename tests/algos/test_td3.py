"""TD3 and DDPG: target smoothing, the policy's period, exploration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.td3 import DDPGConfig, TD3Config, ddpg, smoothed, td3
from purerl.errors import InputError
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

OBSERVATION = Box(low=-1.0, high=1.0, shape=(2,))
ACTION = Box(low=-2.0, high=2.0, shape=(1,))
SPEC = EnvironmentSpec(OBSERVATION, ACTION)
SIZES = {
    "hidden_sizes": (8,),
    "batch_size": 16,
    "replay_capacity": 256,
    "learning_starts": 1,
    "num_envs": 4,
    "rollout_length": 8,
}


def rollout(key):
    draw = lambda i, size: jax.random.uniform(jax.random.fold_in(key, i), (8, 4, size), jnp.float32, -1, 1)
    never = jnp.zeros((8, 4), bool)
    return Rollout(draw(0, 2), draw(1, 1), draw(2, 1)[..., 0], never, never, draw(3, 2), (), ())


def differ(tree, other):
    return any(bool(jnp.any(x != y)) for x, y in zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True))


def test_smoothing_by_hand(key):
    action = jnp.array([[0.0], [0.9], [-1.0]])
    noise = np.asarray(jax.random.normal(key, (3, 1)))
    expected = np.clip(np.asarray(action) + np.clip(0.4 * noise, -0.25, 0.25), -1, 1)
    np.testing.assert_allclose(smoothed(action, key, 0.4, 0.25), expected, rtol=1e-6)
    np.testing.assert_array_equal(smoothed(action, key, 0.0, 0.25), action)


@pytest.mark.long
def test_the_policy_learns_every_second_step_and_the_critics_at_every_one(key):
    algorithm = td3(SPEC, TD3Config(**SIZES))
    update = jax.jit(algorithm.update)
    agent = algorithm.init(key)
    changed = []
    for i in range(4):
        after, _ = update(agent, jax.random.fold_in(key, i), rollout(key))
        changed.append(tuple(differ(after.params[part], agent.params[part]) for part in ("critics", "actor")))
        agent = after
    assert changed == [(True, False), (True, True), (True, False), (True, True)]


@pytest.mark.long
def test_ddpg_has_one_critic_and_learns_its_policy_at_every_step(key):
    algorithm = ddpg(SPEC, DDPGConfig(**SIZES))
    agent = algorithm.init(key)
    assert len(agent.params["critics"]) == 1
    after, _ = jax.jit(algorithm.update)(agent, key, rollout(key))
    assert differ(after.params["actor"], agent.params["actor"])


@pytest.mark.long
def test_exploration_noise_has_the_stated_size_and_greedy_acting_has_none(key):
    config = TD3Config(**{**SIZES, "num_envs": 4096, "replay_capacity": 8192})
    algorithm = td3(SPEC, config)
    agent = algorithm.init(key)._replace(num_updates=jnp.int32(10))
    observation = jnp.zeros((4096, 2))
    noisy, _, _ = algorithm.act(agent, (), key, observation, True)
    greedy, _, _ = algorithm.act(agent, (), key, observation, False)
    assert float(jnp.std(greedy)) < 1e-6
    assert float(jnp.std(noisy)) == pytest.approx(2 * 0.1, rel=0.05)


def test_refuses_discrete_actions():
    with pytest.raises(InputError, match="continuous"):
        td3(EnvironmentSpec(OBSERVATION, Discrete(n=2)), TD3Config(**SIZES))
