"""PPO, DQN and SAC show their complete config; a field that they restate keeps its shared declaration."""

import ast
import dataclasses
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import registry
from purerl.algos.dqn import DQNConfig
from purerl.algos.ppo import PPOConfig, ppo
from purerl.algos.sac import SACConfig
from purerl.catalog.algorithms import ALGORITHMS
from purerl.functional.objectives import Clip
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

SHOWPIECES = [PPOConfig, DQNConfig, SACConfig]


def classes(config):
    """Return the classes of a config's own file that it is made of, the config first."""
    return [cls for cls in config.__mro__ if cls.__module__ == config.__module__]


@pytest.mark.parametrize("config", SHOWPIECES)
def test_every_setting_stands_in_the_file(config):
    """Those of all algorithms are stated again, as they are declared."""
    own = classes(config)
    assert {field.name for field in dataclasses.fields(config)} == {name for cls in own for name in cls.__annotations__}
    shared = {field.name: field for field in dataclasses.fields(own[-1].__mro__[1])}
    for field in dataclasses.fields(config):
        if field.name in shared:
            assert field.metadata == shared[field.name].metadata, field.name
            assert field.type == shared[field.name].type, field.name


@pytest.mark.parametrize("config", SHOWPIECES)
def test_the_story_stands_in_the_file(config):
    """`init`, `act`, `update` and the loss are functions of the file."""
    module = ast.parse(inspect.getsource(inspect.getmodule(config)))
    names = {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
    assert {"init", "act", "update"} <= names and any(name.endswith("loss") for name in names)


@pytest.mark.long
def test_ppo_without_an_objective_has_the_clipped_one(key):
    """The clip in PPO's file is bit-identical to `Clip`."""
    spec, config = EnvironmentSpec(Box(low=-1.0, high=1.0, shape=(2,)), Discrete(n=2)), PPOConfig(num_minibatches=2)
    keys = jax.random.split(key, 3)
    agent, shape = ppo(spec, config).init(key), (config.rollout_length, config.num_envs)
    rollout = Rollout(
        observation=jax.random.normal(keys[0], (*shape, 2)),
        action=jnp.zeros(shape, jnp.int32),
        reward=jax.random.normal(keys[1], shape),
        terminated=jnp.zeros(shape, bool),
        truncated=jnp.zeros(shape, bool),
        next_observation=jax.random.normal(keys[2], (*shape, 2)),
        extras={"raw_action": jnp.zeros(shape, jnp.int32), "log_prob": jax.random.normal(keys[1], shape) * 0.3 - 1.0},
        carry=(),
    )
    plain, given = (
        jax.jit(ppo(spec, config, objective=objective).update)(agent, key, rollout)
        for objective in (None, Clip(epsilon=config.clip_epsilon))
    )
    jax.tree.map(np.testing.assert_array_equal, plain, given)
    assert 0.1 < plain[1]["clip_fraction"] < 0.9


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_config_inherits_in_one_line(name):
    """Algorithms that are another one with other defaults also inherit from that one."""
    configs = {registry.algorithm(other)[1] for other in ALGORITHMS}
    config = registry.algorithm(name)[1]
    of_algorithms = [cls.__name__ for cls in config.__mro__ if cls in configs]
    variants = {
        "crossq": "SACConfig",
        "mappo": "PPOConfig",
        "ppo-penalty": "PPOConfig",
        "ddpg": "TD3Config",
        "d4pg": "TD3Config",
        "qmix": "VDNConfig",
        "rainbow": "C51Config",
        "redq": "SACConfig",
        "reinforce": "A2CConfig",
        "tqc": "SACConfig",
    }
    assert of_algorithms == [config.__name__, *([variants[name]] if name in variants else [])]
    assert len(config.__mro__) <= 8 and all(len(cls.__bases__) == 1 for cls in config.__mro__[:-1])


@pytest.mark.parametrize(
    ("algorithms", "setting"),
    [
        (
            (
                "a2c",
                "impala",
                "pqn",
                "ppo",
                "ppo-penalty",
                "reinforce",
                "vmpo",
                "mappo",
                "r2d2",
                "vdn",
                "qmix",
                "disco",
            ),
            "rnn",
        ),
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


def test_actor_critics_offer_their_values():
    """Those that learn the value of the state a policy acts in, from its own rollouts."""
    space = Box(low=-1.0, high=1.0, shape=(2,))
    actions = {"discrete": Discrete(n=2), "continuous": space}
    has = set()
    for name, entry in ALGORITHMS.items():
        factory, config = registry.algorithm(name)
        if not (entry.teams or config.plans) or name == "mappo":
            kind = "discrete" if "discrete" in entry.actions else "continuous"
            if factory(EnvironmentSpec(space, actions[kind]), config().resumed()).values is not None:
                has.add(name)
    assert has == {"a2c", "impala", "mappo", "ppo", "ppo-penalty", "reinforce", "vmpo"}
