"""Which loop a trainer has, by the options of the host."""

import pytest

import purerl
from purerl.algos.a2c import A2CConfig, a2c
from purerl.envs.bsuite.catch import Catch
from purerl.extensions import host
from purerl.extensions.host.jax_source import JaxSource
from purerl.extensions.host.options import HostOptions
from purerl.extensions.host.trainer import HostTrainer
from purerl.loop.train import CompiledTrainer
from tests.extensions.host.ledger import Ledger


def trainer(env, **options):
    return purerl.make_trainer(a2c, env, A2CConfig(num_envs=6), {"host": HostOptions(**options)})


def test_which_loop_a_trainer_has():
    assert isinstance(trainer(Catch()), CompiledTrainer) and trainer(Catch()).pure
    stepped = trainer(Catch(), sampler="serial")
    assert isinstance(stepped, HostTrainer) and isinstance(stepped.environment, JaxSource) and not stepped.pure
    assert isinstance(stepped.environment.stage, Catch)
    ledger = Ledger()
    assert trainer(ledger).environment is ledger is trainer(ledger, sampler="async", actors=3).environment
    assert ledger.stage is ledger


def test_public_names_are_loaded_when_they_are_used():
    assert host.HostTrainer is HostTrainer and host.JaxSource is JaxSource
    assert all(getattr(host, name) for name in host.__all__)
    with pytest.raises(AttributeError, match=r"module 'purerl.extensions.host' has no attribute 'Settings'"):
        _ = host.Settings
