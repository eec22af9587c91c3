"""A JAX environment on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.algos.dqn import DQNConfig, dqn
from purerl.errors import InputError
from purerl.extensions.host.jax_source import JaxSource
from purerl.extensions.host.trainer import HostSettings, make_host_trainer
from purerl.spaces import Box, Discrete
from purerl.types import Algorithm, Config, Environment, TimeStep, number, pytree

CONFIG = Config(num_envs=3, rollout_length=8)


def test_a_jax_environment_is_refused():
    source = JaxSource("CartPole-v1", purerl.make("CartPole-v1"), CONFIG)
    with pytest.raises(InputError, match="use the compiled loop, sampler auto, instead of inside"):
        make_host_trainer(dqn, source, DQNConfig(), HostSettings(mode="inside"))


def test_groups_of_agents_are_refused():
    source = JaxSource("Spread", purerl.make("Spread"), CONFIG)
    with pytest.raises(InputError, match="Spread has groups of agents: use the compiled loop, sampler auto"):
        make_host_trainer(dqn, source, DQNConfig(), HostSettings(mode="serial"))


@pytree
class Lottery(Environment):
    """Every reward is a uniform draw; an episode lasts `length` steps."""

    length: int = number(default=4)
    observation_space, action_space = Box(low=0.0, high=1e6, shape=(1,)), Discrete(n=2)

    def reset(self, key):
        return jnp.int32(0), jnp.zeros(1)

    def step(self, key, state, action):
        state = state + 1
        observation = state.astype(jnp.float32)[None]
        return state, TimeStep.transition(observation, jax.random.uniform(key), terminated=state >= self.length)


def keeping_rewards(spec, config):
    """An algorithm whose agent is the rewards of the last rollout."""
    return Algorithm(
        init=lambda key: jnp.zeros((config.rollout_length, config.num_envs)),
        initial_carry=lambda num_envs: (),
        act=lambda agent, carry, key, seen, explore: (jnp.zeros(seen.shape[0], jnp.int32), (), ()),
        update=lambda agent, key, rollout: (rollout.reward, {}),
    )


@pytest.mark.long_for("async")
@pytest.mark.parametrize("mode", ["alternating", "async"])
def test_groups_draw_different_numbers(mode):
    config = Config(num_envs=4, rollout_length=4)
    trainer = make_host_trainer(
        keeping_rewards, JaxSource("Lottery", Lottery(), config), config, HostSettings(mode=mode)
    )
    state = trainer.init(jax.random.key(0))
    rewards = []
    for _ in range(2):
        state, _ = trainer.step(state)
        rewards.append(np.asarray(state.agent))
    trainer.close()
    drawn = np.concatenate(rewards)
    assert np.unique(drawn).size == drawn.size, "no two environments and no two steps draw the same"


@pytest.mark.long
def test_a_long_evaluation_draws_new_numbers_throughout():
    config = Config(num_envs=2, rollout_length=4)

    def evaluated(length):
        source = JaxSource("Lottery", Lottery(length=length), config)
        trainer = make_host_trainer(keeping_rewards, source, config)
        found = trainer.evaluate(jnp.zeros((4, 2)), jax.random.key(0), 2).episode_return
        trainer.close()
        return found

    short, long = evaluated(256), evaluated(512)
    assert (np.abs(long - 2 * short) > 0.01).all() and (np.abs(long - 256) < 40).all()
