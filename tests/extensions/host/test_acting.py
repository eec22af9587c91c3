"""Acting on the device: what it needs of an agent, and the keys of a rollout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.dqn import DQNConfig, dqn
from purerl.extensions.host.acting import make_acting
from purerl.types import Algorithm, Config, EnvironmentSpec
from tests.extensions.host.ledger import Ledger


def adding():
    """An algorithm of two numbers, of which acting looks at one; its memory counts the steps of an episode."""

    def act(agent, carry, key, observation, explore):
        action = jnp.int32(agent["offset"]) + (carry if explore else 100 * carry)
        return action, carry + 1, {"seen": observation[:, 0]}

    init = lambda key: {"offset": jnp.float32(10), "unused": jnp.zeros(1000), "key": key}
    return Algorithm(
        init, lambda num_envs: jnp.zeros(num_envs, jnp.int32), act, lambda agent, key, rollout: (agent, {})
    )


def acting_of(algo, source, config, group_size):
    agent = jax.eval_shape(algo.init, jax.random.key(0))
    return make_acting(algo, source, config, agent, group_size).compiled()


def test_only_what_acting_looks_at_is_passed_on():
    acting = acting_of(adding(), Ledger(), Config(num_envs=2, rollout_length=3), 2)
    part = acting.part(adding().init(jax.random.key(0)))
    assert [leaf.shape for leaf in part] == [()] and float(part[0]) == 10.0
    copied = acting.copy(part)
    assert copied[0] is not part[0] and float(copied[0]) == 10.0


@pytest.mark.long
def test_a_replay_is_not_passed_on():
    spec = EnvironmentSpec(Ledger.observation_space, Ledger.action_space)
    config = DQNConfig(num_envs=2, hidden_sizes=(4,), replay_capacity=5000)
    algo = dqn(spec, config)
    part = acting_of(algo, Ledger(), config, 2).part(algo.init(jax.random.key(0)))
    assert 0 < sum(leaf.size for leaf in part) < 6000, "the network of 1000 actions, and a counter"


def test_memory_begins_anew_where_an_episode_does():
    acting = acting_of(adding(), Ledger(), Config(num_envs=2, rollout_length=3), 2)
    part, keys = [jnp.float32(10)], acting.keys(jax.random.key(0), 0)
    observation = jnp.array([[7.0, 0, 0], [8.0, 0, 0]])
    carry, restart = jnp.array([3, 4], jnp.int32), jnp.array([False, True])
    action, after, before, extras, seen = acting.act(part, carry, restart, keys, 0, observation)
    assert action.tolist() == [13, 10] and before.tolist() == [3, 0] and after.tolist() == [4, 1]
    assert extras["seen"].tolist() == [7.0, 8.0]
    np.testing.assert_array_equal(seen, observation)
    greedy, after = acting.act_greedily(part, carry, keys[:, 0], 0, observation)
    assert greedy.tolist() == [310, 410] and after.tolist() == [4, 5]


def test_every_step_of_every_update_has_keys_of_its_own():
    acting = acting_of(adding(), Ledger(), Config(num_envs=2, rollout_length=3), 2)
    keys = [jax.random.key_data(acting.keys(jax.random.key(0), update)) for update in (0, 1)]
    assert keys[0].shape[:2] == (3, 2)
    words = np.concatenate([np.asarray(k).reshape(6, -1) for k in keys])
    assert len({tuple(row) for row in words.tolist()}) == 12
