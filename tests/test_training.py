"""The functions that accept any environment: which loop they choose."""

import jax
import numpy as np
import pytest

import purerl
from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.ppo import PPOConfig, ppo
from purerl.envs.bsuite.catch import Catch
from purerl.envs.classic.acrobot import Acrobot
from purerl.errors import InputError
from purerl.extensions.host.trainer import HostTrainer
from purerl.loop import train
from purerl.settings.runs import settings
from purerl.spaces import Discrete
from tests.extensions.host.ledger import Ledger

CONFIG = A2CConfig(num_envs=2, rollout_length=4, hidden_sizes=(4,), total_timesteps=24)


@pytest.mark.long
def test_a_jax_environment_is_compiled():
    assert isinstance(purerl.make_trainer(a2c, Catch(), CONFIG), train.CompiledTrainer)
    _, metrics = jax.jit(purerl.make_train(a2c, Catch(), CONFIG))(jax.random.key(0))
    assert metrics.algorithm["value_loss"].shape == metrics.episodes["episode_return"].shape == (3,)


@pytest.mark.long
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


@pytest.mark.long
def test_names_stand_for_the_objects():
    """`make_train("ppo", "Acrobot-v1")` has the settings in configs/; the same program as of the objects."""
    named = purerl.make_train("ppo", "Acrobot-v1", total_timesteps=4096)
    tuned = settings("ppo", "Acrobot-v1", {})
    handed = purerl.make_train(ppo, Acrobot(), tuned.config, total_timesteps=4096)
    assert tuned.config != PPOConfig()
    key = jax.random.key(0)
    assert str(jax.make_jaxpr(named)(key)) == str(jax.make_jaxpr(handed)(key))
    assert isinstance(purerl.make_trainer("a2c", Catch()), train.CompiledTrainer)
    with pytest.raises(InputError, match="unknown algorithm 'pppo': did you mean 'ppo'"):
        purerl.make_train("pppo", "CartPole-v1")
