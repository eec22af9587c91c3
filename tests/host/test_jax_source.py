"""A JAX environment on the host."""

import pytest

import purerl
from purerl.algos.dqn import DQNConfig, dqn
from purerl.errors import InputError
from purerl.host import HostSettings, JaxSource, make_host_trainer
from purerl.types import Config

CONFIG = Config(num_envs=3, rollout_length=8)


def test_a_jax_environment_is_refused():
    source = JaxSource("CartPole-v1", purerl.make("CartPole-v1"), CONFIG)
    with pytest.raises(InputError, match="inside jit its loop is the compiled one, sampler auto"):
        make_host_trainer(dqn, source, DQNConfig(), HostSettings(mode="inside"))
