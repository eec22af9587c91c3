"""Sampling inside jit: the same transitions as step by step, and failures outside are reported."""

import dataclasses
import importlib.util
import threading
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.algos.dqn import DQNConfig
from purerl.extensions.host.trainer import HostSettings, make_host_trainer
from purerl.extensions.host.xla_rollout import RolloutCarry, _update
from purerl.host_environment import EnvironmentFailure, HostStep
from purerl.types import Algorithm, Config
from tests.extensions.host.ledger import Ledger

CONFIG = Config(num_envs=3, rollout_length=8)


REAL = [
    pytest.param(name, options, marks=pytest.mark.skipif(not importlib.util.find_spec(package), reason="not installed"))
    for name, package, options in (
        ("envpool/CartPole-v1", "envpool", {"max_episode_steps": 20}),
        ("envpool/Breakout-v5", "envpool", {"preprocessing": "2015", "noop_max": 0}),
        ("envpool/HalfCheetah-v4", "envpool", {}),  # 64-bit numbers: called back
        ("ale/Breakout-v5", "ale_py", {"preprocessing": "2015", "noop_max": 0}),
    )
]


def keeping(source, config):
    """An algorithm with chance and memory whose agent is a digest of all rollouts so far, and the last rewards."""
    shape = (config.rollout_length, config.num_envs)

    def act(agent, carry, key, observation, explore):
        keys = jax.random.split(key, config.num_envs)
        return jax.vmap(source.action_space.sample)(keys), carry + 1, {"memory": carry}

    def digest(rollout):
        numbers = lambda x: x.astype(jnp.float32) * jnp.cos(jnp.arange(x.size, dtype=jnp.float32)).reshape(x.shape)
        return sum((jnp.mean(numbers(x)) for x in jax.tree.leaves(rollout)), jnp.float32(0))

    def update(agent, key, rollout):
        return (agent[0] + digest(rollout), rollout.terminated, rollout.mask, rollout.extras["memory"]), {}

    def init(key):
        flags = jnp.zeros(shape, jnp.bool_)
        return jnp.float32(0), flags, flags, jnp.zeros(shape, jnp.int32)

    return Algorithm(init=init, initial_carry=lambda num_envs: jnp.zeros(num_envs, jnp.int32), act=act, update=update)


def run(source, config, updates, mode, **settings):
    trainer = make_host_trainer(keeping(source, config), source, config, HostSettings(mode=mode, **settings))
    state, seen = trainer.init(jax.random.key(1)), []
    for _ in range(updates):
        state, metrics = trainer.step(state)
        seen.append(jax.device_get((state.agent, metrics.episodes["episodes"], metrics.episodes["episode_return"])))
    trainer.close()
    return seen


def assert_same_transitions(source, config, updates):
    inside, batched = run(source, config, updates, "inside"), run(source, config, updates, "batched")
    for one, other in zip(inside, batched, strict=True):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4), one, other)
    return inside


@pytest.mark.long
def test_transitions_are_those_of_a_loop_of_python():
    found = assert_same_transitions(Ledger(), CONFIG, 4)
    terminated = np.concatenate([agent[1] for agent, *_ in found])
    np.testing.assert_array_equal(np.flatnonzero(terminated[:, 1]), np.arange(2, 32, 4))  # three steps, and one masked
    assert found[0][0][3][:, 1].tolist() == [0, 1, 2, 0, 0, 1, 2, 0]  # the carry, reset before and after a masked step


@pytest.mark.parametrize(("name", "options"), REAL)
def test_transitions_of_libraries(name, options):
    source = purerl.make(name, **options)
    env = source.open(2, 0, True)
    env.reset(None)
    callback = "Cheetah" in name
    assert (env.traced() is None) == callback
    env.close()
    length = 200 if "Breakout" in name else 60
    found = assert_same_transitions(source, dataclasses.replace(CONFIG, num_envs=2, rollout_length=length), 2)
    assert callback or any(agent[1].any() for agent, *_ in found)


def test_memory_starts_over_where_an_episode_does():
    """A rollout that begins with an episode, and whose second step only resets."""
    numbers, flags = jnp.zeros(2), jnp.zeros(2, jnp.bool_)

    def act(part, carry, restart, keys, t, observation):
        return t, jnp.where(restart, 0, carry) + 1, (), (), observation

    def env_step(carry, action):
        step = HostStep(
            observation=numbers,
            reward=numbers,
            terminated=flags,
            truncated=flags,
            mask=jnp.array([True, False]) | (action != 1),
            next_observation=None,
            score=numbers,
            over=flags,
        )
        return carry, step

    acting = SimpleNamespace(part=lambda agent: agent, keys=lambda *_: (), act=act)
    begin = RolloutCarry(env=(), observation=numbers, carry=jnp.array([5, 5]), restart=jnp.array([True, False]))
    learn = lambda agent, vector, key, num_updates, rollouts: rollouts
    update = jax.jit(lambda begin: _update(acting, learn, env_step, jnp.zeros(2, int), 3, (), begin, (), (), 0))
    after, (rollout,) = update(begin)
    assert rollout.carry.tolist() == [0, 5] and after.carry.tolist() == [3, 1]
    assert rollout.truncated.tolist() == [[False, False], [False, True], [False, False]]


@pytest.mark.long
def test_a_state_goes_on_in_new_environments():
    source, config, told = Ledger(), DQNConfig(num_envs=3, rollout_length=8), []
    settings = HostSettings(mode="inside", say=told.append)
    trainer = make_host_trainer(keeping(source, config), source, config, settings)
    state, metrics = trainer.step(trainer.init(jax.random.key(0)))
    shapes, like = trainer.template(jax.random.key(0))
    assert jax.tree.structure(like) == jax.tree.structure(metrics)
    assert metrics.algorithm["replay_ratio"] == config.replay_ratio
    jax.tree.map(lambda x, s: np.testing.assert_equal((x.shape, x.dtype), (s.shape, s.dtype)), state, shapes)
    trainer.close()
    state, _ = trainer.step(state)
    assert int(state.num_updates) == 2 and len(source.opened) == 2 and "their episodes start over" in told[0]
    trainer.close()


@pytest.mark.long
def test_an_environment_that_raises(tmp_path):
    def trouble():
        raise ValueError("the bridge is out")

    with pytest.raises(EnvironmentFailure, match=r"test/Ledger .*raised in step 5: ValueError: the bridge is out"):
        run(Ledger(trouble=trouble), CONFIG, 1, "inside", failures=tmp_path)
    assert np.load(tmp_path / "failure-0.npz")["actions"].shape == (5, 3)


def test_an_environment_that_hangs():
    free = threading.Event()
    with pytest.raises(EnvironmentFailure, match=r"hangs in step 5: no answer within 0.3 s"):
        run(Ledger(trouble=lambda: free.wait(300.0)), CONFIG, 1, "inside", time_limit=0.3)
    assert not free.is_set()
    free.set()
