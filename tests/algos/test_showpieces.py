"""PPO, DQN and SAC show their whole config; what they restate is what the shared classes declare."""

import ast
import dataclasses
import inspect

import pytest

from purerl import registry
from purerl.algos.dqn import DQNConfig
from purerl.algos.ppo import PPOConfig
from purerl.algos.sac import SACConfig
from purerl.catalog.algorithms import ALGORITHMS

SHOWPIECES = [PPOConfig, DQNConfig, SACConfig]


@pytest.mark.parametrize("config", SHOWPIECES)
def test_every_setting_stands_in_the_file(config):
    assert {field.name for field in dataclasses.fields(config)} == set(config.__annotations__)
    shared = {field.name: field for field in dataclasses.fields(config.__mro__[1])}
    for field in dataclasses.fields(config):
        if field.name in shared:
            assert field.metadata == shared[field.name].metadata, field.name
            assert field.default == shared[field.name].default, field.name
            assert field.type == shared[field.name].type, field.name


@pytest.mark.parametrize("config", SHOWPIECES)
def test_the_story_comes_first(config):
    """`init`, `act`, `update` and the loss stand in the factory, in this order."""
    module = ast.parse(inspect.getsource(inspect.getmodule(config)))
    factory = next(node for node in module.body if isinstance(node, ast.FunctionDef))
    inner = [node.name for node in factory.body if isinstance(node, ast.FunctionDef)]
    loss = next(name for name in inner if name.endswith("loss"))
    assert [name for name in inner if name in ("init", "act", "update", loss)] == ["init", "act", "update", loss]


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_config_inherits_from_one_shared_class(name):
    """Algorithms that are another one with other defaults also inherit from that one."""
    config = registry.algorithm(name)[1]
    of_algorithms = [cls.__name__ for cls in config.__mro__ if cls.__module__.startswith("purerl.algos")]
    variants = {
        "mappo": "PPOConfig",
        "ppo-penalty": "PPOConfig",
        "ddpg": "TD3Config",
        "d4pg": "TD3Config",
        "qmix": "VDNConfig",
        "redq": "SACConfig",
        "reinforce": "A2CConfig",
        "tqc": "SACConfig",
    }
    assert of_algorithms == [config.__name__, *([variants[name]] if name in variants else [])]
    shared = [cls for cls in config.__mro__ if cls.__module__.startswith(("purerl.algo_parts", "purerl.networks"))]
    assert len(shared) <= 3 and all(len(cls.__bases__) == 1 for cls in config.__mro__[:-1])


@pytest.mark.parametrize(
    ("algorithms", "setting"),
    [
        (("a2c", "impala", "pqn", "ppo", "ppo-penalty", "reinforce", "vmpo", "mappo", "r2d2", "vdn", "qmix"), "rnn"),
        (("mappo",), "centralized_critic"),
        (("mappo",), "normalize_value"),
        (("mappo",), "value_huber_delta"),
        (("c51", "dqn", "iqn", "munchausen", "qrdqn", "rainbow", "r2d2"), "priority_exponent"),
        (("c51", "dqn", "iqn", "munchausen", "qrdqn", "rainbow"), "noisy"),
    ],
)
def test_a_setting_is_offered_where_it_applies(algorithms, setting):
    has = lambda name: setting in {field.name for field in dataclasses.fields(registry.algorithm(name)[1])}
    assert {name for name in ALGORITHMS if has(name)} == set(algorithms)
