"""The memory of a replay, reported or refused before a run starts."""

import jax
import pytest

from purerl import make
from purerl.algos.dqn import DQNConfig, dqn
from purerl.errors import InputError
from purerl.replay import sizes
from purerl.types import EnvironmentSpec


def test_sizes_are_held_to_one_another():
    sizes.check_sizes(capacity=100, num_envs=10, batch_size=100, n_step=10)
    with pytest.raises(InputError, match="batch_size 101 is larger than the replay's capacity 100"):
        sizes.check_sizes(capacity=100, num_envs=10, batch_size=101, n_step=1)
    with pytest.raises(InputError, match="n_step 11 is larger than an environment's share of the replay, 10"):
        sizes.check_sizes(capacity=100, num_envs=10, batch_size=10, n_step=11)


def test_memory_is_held_to_what_there_is(monkeypatch):
    monkeypatch.setattr(sizes, "total", lambda: 4_000_000)
    sizes.check_memory(4_000_000, 1000)
    message = "a replay of 1000 steps for each of 3 seeds takes 8 MB; there are 4 MB. At most 500 steps fit"
    with pytest.raises(InputError, match=message):
        sizes.check_memory(8_000_000, 1000, seeds=3)


def test_what_a_run_holds_is_told_in_one_line():
    """CartPole: 4 x 4 bytes of observation, 4 of action and reward each, 1 of flags; two seeds of 1001 rows of 10."""
    config = DQNConfig(replay_capacity=10_000)
    env = make("CartPole-v1")
    algorithm = dqn(EnvironmentSpec(env.observation_space, env.action_space), config)
    agent = jax.eval_shape(jax.vmap(algorithm.init), jax.random.split(jax.random.key(0), 2))
    assert sizes.line(agent, config, 2) == "replay: 10,000 steps per seed, 2 seeds, 0.5 MB"
    assert sizes.line((), config, 2) is None
    many = jax.eval_shape(jax.vmap(algorithm.init), jax.ShapeDtypeStruct((10**7,), jax.random.key(0).dtype))
    with pytest.raises(InputError, match=r"a replay of 10000 steps for each of 10000000 seeds takes .* MB; there are"):
        sizes.line(many, config, 10**7)


@pytest.mark.long
def test_a_run_is_held_to_the_free_memory(monkeypatch):
    config = DQNConfig(replay_capacity=10_000)
    env = make("CartPole-v1")
    algorithm = dqn(EnvironmentSpec(env.observation_space, env.action_space), config)
    agent = jax.eval_shape(jax.vmap(algorithm.init), jax.random.split(jax.random.key(0), 2))
    monkeypatch.setattr(sizes, "free", lambda: 250_000)
    with pytest.raises(InputError, match=r"takes 1 MB; there are 0 MB free. At most 4,"):
        sizes.line(agent, config, 2)
