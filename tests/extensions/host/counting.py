"""An algorithm that counts its steps, and helpers of the host loop's tests."""

import jax
import jax.numpy as jnp
import numpy as np

import purerl
from purerl.algos.dqn import DQNConfig
from purerl.algos.ppo import PPOConfig
from purerl.extensions.host.jax_source import JaxSource
from purerl.extensions.host.trainer import HostSettings, make_host_trainer
from purerl.types import Algorithm

PPO = PPOConfig(
    num_envs=4, rollout_length=16, num_minibatches=2, num_epochs=2, hidden_sizes=(8,), rnn="gru", rnn_size=8
)


def counting():
    """An algorithm whose carry counts the steps since it was reset, and whose actions are the count."""

    def act(agent, carry, key, observation, explore):
        return carry + 1, carry + 1, {"count": carry + 1}

    def update(agent, key, rollout):
        return agent + 1, {}

    return Algorithm(
        init=lambda key: jnp.int32(0),
        initial_carry=lambda num_envs: jnp.zeros(num_envs, jnp.int32),
        act=act,
        update=update,
    )


DQN = DQNConfig(
    num_envs=4, rollout_length=4, hidden_sizes=(8,), batch_size=8, learning_starts=32, replay_capacity=256, n_step=2
)


def leaves(tree):
    return [
        np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)
        for x in jax.tree.leaves(tree)
    ]


def assert_same_bits(one, other):
    for a, b in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


def dressed(factory, config, **settings):
    return make_host_trainer(
        factory, JaxSource("CartPole-v1", purerl.make("CartPole-v1"), config), config, HostSettings(**settings)
    )


def run(trainer, updates, state=None):
    """Take updates in new threads and environments; the trainer's compiled programs serve again."""
    state = trainer.init(jax.random.key(3)) if state is None else state
    found = []
    for _ in range(updates):
        state, metrics = trainer.step(state)
        found.append(metrics)
    trainer.close()
    return state, found
