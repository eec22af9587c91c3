"""Settings that a run takes of the run that it starts from: by hand."""

import dataclasses

from purerl import registry
from purerl.algos.ppo import PPOConfig
from purerl.catalog.algorithms import ALGORITHMS
from purerl.settings.starting import AGENT_SETTINGS, agent_settings
from purerl.types import number, pytree, static


@pytree
class Own(PPOConfig):
    """A config of a user's: what is static may shape the agent, as far as anybody knows."""

    num_envs: int = static(default=3)
    units: int = static(default=4)
    weight: float = number(default=1.0)


def test_the_networks_are_taken_and_the_lengths_are_not():
    taken = agent_settings(PPOConfig)
    assert {"hidden_sizes", "rnn", "normalize_observation"} <= taken
    assert not taken & {"total_timesteps", "learning_rate", "num_envs", "rollout_length", "discount"}
    assert agent_settings(Own) == taken | {"units"}


def test_each_is_a_setting_of_some_algorithm():
    known = {field.name for name in ALGORITHMS for field in dataclasses.fields(registry.algorithm(name)[1])}
    assert known >= AGENT_SETTINGS
