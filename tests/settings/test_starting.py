"""Settings that a run takes from the run that it starts from, by hand."""

import dataclasses

import jax
import pytest

import purerl
from purerl import registry
from purerl.algos.ppo import PPOConfig
from purerl.catalog.algorithms import ALGORITHMS
from purerl.errors import InputError
from purerl.run.warm_start import KNOWN, field_of
from purerl.settings.starting import AGENT_SETTINGS, agent_settings
from purerl.types import EnvironmentSpec, number, pytree, static


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


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(ALGORITHMS.keys() - {"qmix", "vdn"}))
def test_each_size_of_a_network_is_taken(name):
    """A run cannot start from one of other shapes; teams, which qmix and vdn need, add no sizes of their own."""
    factory, config_class = registry.algorithm(name)
    env = purerl.make("CartPole-v1" if "discrete" in ALGORITHMS[name].actions else "Pendulum-v1")
    spec, key = EnvironmentSpec(env.observation_space, env.action_space), jax.random.key(0)
    first = config_class(weights="random") if name == "disco" else config_class()

    def shapes(config):
        found = jax.tree_util.tree_leaves_with_path(jax.eval_shape(factory(spec, config).init, key))
        named = ((field_of(jax.tree_util.keystr(path)), x.shape) for path, x in found)
        return {path: shape for path, shape in named if path.startswith(KNOWN)}

    for field in dataclasses.fields(config_class):
        size = getattr(first, field.name)
        if isinstance(size, int) and not isinstance(size, bool) and field.name not in agent_settings(config_class):
            try:
                other = shapes(dataclasses.replace(first, **{field.name: size * 2}))
            except InputError:  # two settings that do not fit
                continue
            assert other == shapes(first), field.name
