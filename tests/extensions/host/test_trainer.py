"""The host runtime: bit-identical to the compiled loop, compared with a ledger kept by hand, and with failures."""

import dataclasses
import json
import multiprocessing
import re
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.dqn import dqn
from purerl.algos.ppo import ppo
from purerl.envs.adapters import gymnasium as gymnasium_adapter
from purerl.errors import InputError
from purerl.extensions.host.trainer import HostSettings, make_host_trainer
from purerl.host_environment import EnvironmentFailure
from purerl.replay import uniform
from purerl.spaces import Discrete
from tests.extensions.host.counting import DQN, PPO, assert_same_bits, counting, dressed, run
from tests.extensions.host.ledger import Ledger


@pytest.fixture(scope="module")
def serial():
    """(a trainer, the state of its run after four updates, their metrics)."""
    trainer = dressed(ppo, PPO, mode="serial")
    return trainer, *run(trainer, 4)


def compiled(factory, config, updates):
    trainer = purerl.make_trainer(factory, purerl.make("CartPole-v1"), config)
    step, state = jax.jit(trainer.step), jax.jit(trainer.init)(jax.random.key(3))
    for _ in range(updates):
        state, metrics = step(state)
    return state, metrics


def assert_same_runs(compiled, host):
    if jax.default_backend() == "cpu":
        assert_same_bits(compiled[0].agent, host[0].agent)
        for name, value in compiled[1].flat().items():
            np.testing.assert_array_equal(value, host[1][-1].flat()[name], err_msg=name)


@pytest.mark.long
def test_serial_is_the_compiled_loop_to_the_bit(serial):
    assert_same_runs(compiled(ppo, PPO, 4), serial[1:])


@pytest.mark.long
def test_serial_replays_as_the_compiled_loop_does():
    assert_same_runs(compiled(dqn, DQN, 20), run(dressed(dqn, DQN, mode="serial"), 20))


def test_a_saved_state_goes_on_to_the_same_bits(serial):
    trainer, expected, _ = serial
    half, _ = run(trainer, 2)
    saved = jax.tree.map(lambda x: x.copy(), half)
    whole, _ = run(trainer, 2, saved)
    assert_same_bits(whole.agent, expected.agent)


@pytest.mark.long
def test_alternating_is_reproducible_and_learns_from_both_halves():
    trainer = dressed(ppo, dataclasses.replace(PPO, rnn="none"), mode="alternating")
    one, found = run(trainer, 4)
    other, _ = run(trainer, 4)
    assert_same_bits(one.agent, other.agent)
    assert sum(float(m.episodes["episodes"]) for m in found) > 2


@pytest.mark.parametrize("mode", ["serial", "alternating", "async"])
def test_an_environment_that_raises(mode, tmp_path):
    def trouble():
        error = ValueError("the bridge is out")
        error.env_id = 1
        raise error

    source = Ledger(trouble=trouble)
    settings = HostSettings(mode=mode, failures=tmp_path, time_limit=10.0)
    trainer = make_host_trainer(counting(), source, PPO, settings)
    state = trainer.init(jax.random.key(0))
    with pytest.raises(
        EnvironmentFailure, match=r"environment 1 of test/Ledger .*raised in step 5: ValueError: the br"
    ):
        trainer.step(state)
    trainer.close()
    (notes,) = tmp_path.glob("*.json") if mode == "serial" else list(tmp_path.glob("*.json"))[:1]
    told = json.loads(notes.read_text())
    assert told["env_id"] == 1 and told["steps"] == 5 and told["parameters"] == {"answer": 42}
    actions = np.load(notes.with_suffix(".npz"), allow_pickle=False)["actions"]
    again = Ledger().open(actions.shape[1], told["seed"], True)
    for action in actions[:4]:  # the episode can be played again up to where it broke
        step = again.step(action, None, 0)
    assert step.observation[0, 1] == 1 and step.mask[0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "num_envs", "told"),
    [
        ("serial", 2, "it called os._exit, its exit code 9"),
        ("batched", 2, "its process died (exit code 9)"),
        ("alternating", 2, "it called os._exit, its exit code 9"),
        ("async", 2, "it called os._exit, its exit code 9"),
        ("async", 4, "its process died (exit code 9)"),
        ("inside", 2, "its process died (exit code 9)"),
    ],
)
def test_an_environment_that_ends_its_process(mode, num_envs, told, monkeypatch):
    """Each sampler reports its exit code at once, and leaves nothing of it behind."""
    monkeypatch.setattr(gymnasium_adapter, "_cores", lambda: 2)
    source = purerl.make("gymnasium/benchmarks.faults.broken:Broken-v0", fault="os._exit in step")
    config = A2CConfig(num_envs=num_envs, rollout_length=16, hidden_sizes=(4,), total_timesteps=640)
    trainer = make_host_trainer(a2c, source, config, HostSettings(mode=mode))
    state = trainer.init(jax.random.key(0))
    state, _ = trainer.step(state)
    began = time.monotonic()
    with pytest.raises(EnvironmentFailure, match=re.escape(told)):
        for _ in range(3):
            state, _ = trainer.step(state)
    trainer.close()
    assert time.monotonic() - began < 10
    for process in multiprocessing.active_children():
        process.join(5.0)
        assert not process.is_alive()


def test_an_environment_that_hangs():
    source = Ledger(trouble=lambda: time.sleep(4.0))
    trainer = make_host_trainer(counting(), source, PPO, HostSettings(mode="batched", time_limit=0.3))
    state = trainer.init(jax.random.key(0))
    began = time.monotonic()
    with pytest.raises(EnvironmentFailure, match=r"hangs in step 5: no answer within 0.3 s"):
        trainer.step(state)
    assert time.monotonic() - began < 4.0
    trainer.close()


def test_greedy_episodes_are_whole_ones():
    trainer = make_host_trainer(counting(), Ledger(), PPO)
    total, length, finished, _ = trainer.evaluate(jnp.int32(0), jax.random.key(0), 3)
    trainer.close()
    assert finished.all() and length.tolist() == [2, 3, 4] and total.tolist() == [3.0, 6.0, 10.0]


def test_bad_input():
    source = Ledger()
    with pytest.raises(InputError, match="did you mean 'alternating'"):
        make_host_trainer(counting(), source, PPO, HostSettings(mode="alternate"))
    with pytest.raises(InputError, match="num_envs 5 cannot be shared by the 2 groups"):
        make_host_trainer(counting(), source, dataclasses.replace(PPO, num_envs=5), HostSettings(mode="alternating"))
    trainer = purerl.make_trainer(lambda spec, config: counting(), source, PPO)
    for inside in (jax.jit, jax.vmap):
        with pytest.raises(InputError, match="test/Ledger runs on the host, so jit or vmap cannot hold it: loop over"):
            inside(trainer.init)(jax.random.split(jax.random.key(0), 2) if inside is jax.vmap else jax.random.key(0))
    with pytest.raises(InputError, match="runs on the host"):
        jax.jit(purerl.make_train(lambda spec, config: counting(), source, PPO, 1000))(jax.random.key(0))


@pytest.mark.long
def test_going_on_does_not_join_two_episodes():
    """Environments that cannot be saved start over: stored transitions and counted episodes end there."""
    source = Ledger()
    source.action_space = Discrete(n=3)
    config = dataclasses.replace(DQN, num_envs=6, n_step=1, replay_capacity=600, learning_starts=600)
    trainer = make_host_trainer(dqn, source, config, HostSettings(mode="serial"))
    state, _ = run(trainer, 8)
    state, found = run(trainer, 8, state)
    assert max(float(m.episodes["episode_length_max"]) for m in found if m.episodes["episodes"] > 0) <= 7
    assert int(found[0].episodes["episodes"]) == sum(2 + i <= 3 for i in range(6)), "three steps, after the first row"
    storage = state.agent.replay
    every = jnp.arange(storage.flag.size, dtype=jnp.int32)
    drawn = jax.device_get(uniform.gather(storage, every, 1.0, config.discount))
    whole = (drawn.weight > 0) & (drawn.discount > 0)
    assert whole.sum() > 100
    seen, after, action = drawn.observation[whole], drawn.next_observation[whole], drawn.action[whole]
    np.testing.assert_array_equal(after, seen + np.stack([0 * action, 0 * action + 1, action], axis=1))


@pytest.mark.long
def test_an_update_that_only_closes_episodes_is_measured():
    """It is the first update of a resumed run whose rollouts have one step: no environment has stepped by then."""
    source = Ledger()
    source.action_space = Discrete(n=3)
    config = dataclasses.replace(DQN, num_envs=6, rollout_length=1, n_step=1, learning_starts=12)
    state, _ = run(make_host_trainer(dqn, source, config, HostSettings(mode="serial")), 3)
    _, found = run(make_host_trainer(dqn, source, config, HostSettings(mode="serial")), 3, state)
    assert [float(m.algorithm["replay_ratio"]) for m in found] == [np.float32(config.replay_ratio)] * 3
