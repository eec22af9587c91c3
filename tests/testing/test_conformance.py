"""Everything that is registered keeps its contract, and every algorithm learns the probes."""

import dataclasses

import pytest

from purerl import registry
from purerl.testing import check_algorithm, check_environment

# Small and quick settings, for whatever field an algorithm has.
SMALL = {
    "num_envs": 8,
    "rollout_length": 16,
    "total_timesteps": 16_384,
    "discount": 0.9,
    "hidden_sizes": (16,),
    "rnn_size": 16,
    "learning_rate": 3e-3,
    "reset_policy": "always",
}
REPLAYING = {
    "rollout_length": 2,
    "batch_size": 32,
    "replay_capacity": 2_048,
    "learning_starts": 32,
    "target_update_interval": 20,
}
# A deterministic policy needs random actions first, else it saturates where the critic has seen nothing.
DETERMINISTIC = {"rollout_length": 64, "num_gradient_steps": 64, "learning_starts": 1024, "exploration_noise": 0.5}
SEQUENCES = {
    "rollout_length": 16,
    "burn_in": 16,
    "sequence_length": 16,
    "learning_starts": 256,
    "batch_size": 8,
    "num_gradient_steps": 8,
    "epsilon_max": 0.5,
    "epsilon_evaluation": 0.0,
}
SETTINGS = {
    "a2c": {"rollout_length": 8, "learning_rate": 1e-2},
    "ddpg": DETERMINISTIC,
    "impala": {"learning_rate": 1e-2},
    "pqn": {"num_minibatches": 4},
    "r2d2": SEQUENCES,
    "td3": DETERMINISTIC,
}
WHOLE = {"dqn", "ppo", "sac"}  # one of each family; for the others all but learning is slow


ALGORITHMS = {name: row for name, row in registry.ALGORITHMS.items() if not row.teams}  # the probes have one agent


def small(name):
    """Return (factory, config) of an algorithm with settings that learn the probes in seconds."""
    factory, config_class = registry.algorithm(name)
    fields = {field.name for field in dataclasses.fields(config_class)}
    wanted = SMALL | (REPLAYING if "replay_capacity" in fields else {}) | SETTINGS.get(name, {})
    return factory, config_class(**{field: value for field, value in wanted.items() if field in fields})


def rows(names, quick):
    """Mark all but the quick ones as slow."""
    return [pytest.param(name, marks=[] if name in quick else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", registry.ENVIRONMENTS)
def test_environment(name):
    check_environment(registry.make(name), name=name)


@pytest.mark.parametrize("name", rows(ALGORITHMS, WHOLE))
def test_algorithm(name):
    factory, config = small(name)
    check_algorithm(factory, config, actions=registry.ALGORITHMS[name].actions[:1])


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in WHOLE])
def test_learning(name):
    factory, config = small(name)
    check_algorithm(factory, config, actions=registry.ALGORITHMS[name].actions[:1], contract=False)


OTHER_ACTIONS = [f"{name} {kind}" for name, row in ALGORITHMS.items() for kind in row.actions[1:]]


@pytest.mark.parametrize("name_and_kind", rows(OTHER_ACTIONS, {"ppo continuous", "ppo multi-discrete"}))
def test_other_actions(name_and_kind):
    name, kind = name_and_kind.split()
    factory, config = small(name)
    check_algorithm(factory, config, actions=(kind,), contract=False)


def test_memory():
    """One kind of memory is enough, as all policies share it."""
    factory, config = small("ppo")
    check_algorithm(factory, dataclasses.replace(config, rnn="gru", num_minibatches=2), contract=False)
