"""The doors for any environment: which loop they open."""

import jax
import numpy as np
import pytest

import purerl
from purerl.algos.a2c import A2CConfig, a2c
from purerl.envs.bsuite.catch import Catch
from purerl.errors import InputError
from purerl.host import HostTrainer
from purerl.loop import train
from purerl.spaces import Discrete
from tests.host.ledger import Ledger

CONFIG = A2CConfig(num_envs=2, rollout_length=4, hidden_sizes=(4,), total_timesteps=24)


def test_a_jax_environment_is_compiled():
    assert isinstance(purerl.make_trainer(a2c, Catch(), CONFIG), train.CompiledTrainer)
    _, metrics = jax.jit(purerl.make_train(a2c, Catch(), CONFIG))(jax.random.key(0))
    assert metrics.algorithm["value_loss"].shape == metrics.episodes["episode_return"].shape == (3,)


def test_a_host_environment_is_looped_over():
    source = Ledger()
    source.action_space = Discrete(n=3)
    trainer = purerl.make_trainer(a2c, source, CONFIG)
    assert isinstance(trainer, HostTrainer)
    state, metrics = trainer.step(trainer.init(jax.random.key(0)))
    assert int(state.num_updates) == 1 and np.isfinite(metrics.algorithm["value_loss"])
    assert purerl.evaluate(trainer, state.agent, jax.random.key(1), num_episodes=3).finished.all()
    with pytest.raises(InputError, match="evaluation is greedy: explore must be False"):
        purerl.evaluate(trainer, state.agent, jax.random.key(1), num_episodes=3, explore=True)
    trainer.close()
    with pytest.raises(InputError, match="test/Ledger runs on the host, so make_train cannot hold it: loop over"):
        purerl.make_train(a2c, source, CONFIG)
