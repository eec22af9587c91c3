"""Small and quick settings of every algorithm."""

import dataclasses

from purerl import registry
from tests.helpers.disco_inputs import WEIGHTS

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
}


# A few simulations in each step cost as much as many plain ones.
SEARCHING = {"num_simulations": 4, "rollout_length": 8, "total_timesteps": 8_192, "learning_rate": 1e-2}


SETTINGS = {
    "alphazero": SEARCHING,
    "muzero": SEARCHING | {"unroll_steps": 2},
    "a2c": {"rollout_length": 8, "learning_rate": 1e-2},
    "awr": {"rollout_length": 8, "num_gradient_steps": 4, "n_step": 4},
    "crossq": {"critic_hidden_sizes": (32,), "num_gradient_steps": 2},
    "d4pg": DETERMINISTIC | {"v_min": -10.0, "v_max": 10.0, "n_step": 2},
    "ddpg": DETERMINISTIC,
    "disco": {
        "weights": str(WEIGHTS) if WEIGHTS.exists() else "random",
        "rollout_length": 16,
        "batch_size": 16,
        "learning_starts": 256,
        "model_size": 16,
    },
    "impala": {"learning_rate": 1e-2},
    "pqn": {"num_minibatches": 4},
    "r2d2": SEQUENCES,
    "redq": {"num_critics": 3, "num_gradient_steps": 2, "policy_period": 2},
    "reinforce": {"learning_rate": 1e-2},
    "spo": {"num_particles": 4, "depth": 2, "resampling_period": 1, "rollout_length": 8, "learning_rate": 1e-2},
    "td3": DETERMINISTIC,
    "tqc": {"num_critics": 2, "num_quantiles": 8},
}


# The least that takes a gradient step in the first update of four steps in each of two environments.
TINY = {
    "num_envs": 2,
    "rollout_length": 4,
    "num_epochs": 1,
    "num_minibatches": 1,
    "num_gradient_steps": 1,
    "hidden_sizes": (8,),
    "critic_hidden_sizes": (8,),
    "activation": "tanh",  # no unit is dead
    "rnn_size": 4,
    "batch_size": 8,
    "replay_capacity": 16,
    "learning_starts": 8,
    "n_step": 1,
    "policy_period": 1,
    "num_atoms": 5,
    "num_quantiles": 3,
    "num_critics": 2,
    "num_simulations": 2,
    "unroll_steps": 1,
    "num_particles": 2,
    "depth": 2,
    "resampling_period": 1,
    "reset_policy": "always",
}
TINY_SETTINGS = {
    "disco": {"weights": "random", "batch_size": 2, "model_size": 4, "v_min": -2.0, "v_max": 2.0},
    "r2d2": {"batch_size": 2, "burn_in": 0, "sequence_length": 4},
}


def tiny(name):
    """Return (factory, config) of an algorithm with settings that compile in a second."""
    factory, config_class = registry.algorithm(name)
    return factory, set_tiny(name, config_class)


def set_tiny(name, config_class):
    """Return the config of `tiny`."""
    fields = {field.name for field in dataclasses.fields(config_class)}
    wanted = TINY | TINY_SETTINGS.get(name, {})
    return config_class(**{field: value for field, value in wanted.items() if field in fields})


def small(name):
    """Return (factory, config) of an algorithm with settings that learn the probes in seconds."""
    factory, config_class = registry.algorithm(name)
    fields = {field.name for field in dataclasses.fields(config_class)}
    wanted = SMALL | (REPLAYING if "replay_capacity" in fields else {}) | SETTINGS.get(name, {})
    return factory, config_class(**{field: value for field, value in wanted.items() if field in fields})
