"""The host runtime: against the compiled loop to the bit, against a ledger kept by hand, and when things go wrong."""

import dataclasses
import itertools
import json
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.ppo import PPOConfig, ppo
from purerl.errors import InputError
from purerl.host import Dressed, HostSettings, make_host_trainer
from purerl.host.acting import make_acting
from purerl.host.env_thread import Busy, Worker
from purerl.host.rollout import Group, collect
from purerl.host_environment import EnvironmentFailure
from purerl.spaces import Discrete
from purerl.types import Algorithm
from tests.host.ledger import Ledger

PPO = PPOConfig(
    num_envs=4, rollout_length=16, num_minibatches=2, num_epochs=2, hidden_sizes=(8,), rnn="gru", rnn_size=8
)
DQN = DQNConfig(
    num_envs=4, rollout_length=4, hidden_sizes=(8,), batch_size=8, learning_starts=32, replay_capacity=256, n_step=2
)


def counting():
    """An algorithm whose memory counts the steps since it began anew, and whose actions tell the count."""

    def act(agent, carry, key, observation, explore):
        return carry + 1, carry + 1, {"count": carry + 1}

    def update(agent, key, rollout):
        return agent + 1, {}

    return Algorithm(lambda key: jnp.int32(0), lambda num_envs: jnp.zeros(num_envs, jnp.int32), act, update)


def gathered(num_groups, size, length, rollouts):
    source, algo = Ledger(), counting()
    config = dataclasses.replace(PPO, num_envs=num_groups * size, rollout_length=length)
    acting = make_acting(algo, source, config, jax.eval_shape(algo.init, jax.random.key(0)), size)
    groups = []
    for i in range(num_groups):
        about = {"environment": source.id, "seed": 0, "group": str(i)}
        worker = Worker(source.open(size, 0, True), about, 10.0, None, Busy())
        groups.append(Group(worker, acting, i, algo.initial_carry(size), size))
        groups[-1].begin(worker.reset(None))
    keys = acting.keys(jax.random.key(0), 0)
    found = [collect(groups, acting.part(jnp.int32(0)), keys, length) for _ in range(rollouts)]
    for group in groups:
        group.worker.close()
    assert all(env.closed for env in source.opened)
    return found


@pytest.mark.parametrize("num_groups", [1, 2])
def test_transitions_masks_and_memory(num_groups):
    """By hand: environment i acts 1, 2, .., i + 2, then a masked step, then again; memory begins anew each time."""
    size, length = 3, 5
    for group in range(num_groups):
        rollouts = [parts[group] for parts in gathered(num_groups, size, length, 6)]
        for i in range(size):
            period, flat = i + 3, 6 * length
            phase = np.arange(flat) % period  # of each step: period - 1 is the masked one
            masked = phase == period - 1
            of = lambda name, i=i, rs=rollouts: np.concatenate([np.asarray(getattr(r, name))[:, i] for r in rs])
            np.testing.assert_array_equal(of("mask"), ~masked)
            np.testing.assert_array_equal(of("terminated"), phase == period - 2)
            np.testing.assert_array_equal(of("truncated"), masked)
            action = np.concatenate([np.stack(r.action)[:, i] for r in rollouts])
            # A masked step acts on the final observation with memory that has begun anew, and is itself an ending.
            np.testing.assert_array_equal(action, np.where(masked, 1, phase + 1))
            np.testing.assert_array_equal(of("reward"), np.where(masked, 0, phase + 1))
            observed = np.concatenate([np.stack(r.observation)[:, i, 1] for r in rollouts])
            np.testing.assert_array_equal(observed, phase)
        for before, after in itertools.pairwise(rollouts):
            np.testing.assert_array_equal(before.last, after.observation[0])


def leaves(tree):
    return [
        np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)
        for x in jax.tree.leaves(tree)
    ]


def assert_same_bits(one, other):
    for a, b in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


def dressed(factory, config, **settings):
    return make_host_trainer(
        factory, Dressed("CartPole-v1", purerl.make("CartPole-v1"), config), config, HostSettings(**settings)
    )


def run(trainer, updates, state=None):
    """Take updates in new threads and environments; the trainer's compiled programs serve again."""
    state = trainer.init(jax.random.key(3)) if state is None else state
    found = []
    for _ in range(updates):
        state, metrics = trainer.step(state)
        found.append(metrics)
    trainer.close()
    return state, found


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
        for name, value in compiled[1].items():
            np.testing.assert_array_equal(value, host[1][-1][name], err_msg=name)


def test_serial_is_the_compiled_loop_to_the_bit(serial):
    assert_same_runs(compiled(ppo, PPO, 4), serial[1:])


def test_serial_replays_as_the_compiled_loop_does():
    assert_same_runs(compiled(dqn, DQN, 20), run(dressed(dqn, DQN, mode="serial"), 20))


def test_a_saved_state_goes_on_to_the_same_bits(serial):
    trainer, expected, _ = serial
    half, _ = run(trainer, 2)
    saved = jax.tree.map(lambda x: x.copy(), half)
    whole, _ = run(trainer, 2, saved)
    assert_same_bits(whole.agent, expected.agent)


def test_deterministic_async_is_exactly_one_version_behind():
    trainer = dressed(ppo, PPO, mode="async", num_actors=2, deterministic=True)
    one, metrics = run(trainer, 6)
    other, _ = run(trainer, 6)
    assert_same_bits(one.agent, other.agent)
    assert [float(m["policy_lag"]) for m in metrics] == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_async_holds_the_replay_ratio():
    config, source = dataclasses.replace(DQN, num_envs=6), Ledger()
    source.action_space = Discrete(n=3)
    trainer, updates = make_host_trainer(dqn, source, config, HostSettings(mode="async", num_actors=2)), 100
    for delay in (0.0, 0.004):  # actors that run ahead of the learner, and that hold it up
        source.delay, source.opened = delay, []
        state, found = run(trainer, updates)
        assert all(0 <= metrics["policy_lag"] <= 3 for metrics in found)
        taken = sum(env.steps for env in source.opened) * 3
        planned = config.batch_size * config.num_gradient_steps / config.steps_per_update
        learned = int(state.agent.num_gradient_steps) * config.batch_size
        before_learning = config.learning_starts // config.steps_per_update * config.steps_per_update
        assert learned / (taken - before_learning) == pytest.approx(planned, rel=0.05)
        assert found[-1]["replay_ratio"] == pytest.approx(planned, rel=0.05)
        assert int(state.agent.num_steps) == updates * config.steps_per_update


def test_alternating_is_reproducible_and_learns_from_both_halves():
    trainer = dressed(ppo, dataclasses.replace(PPO, rnn="none"), mode="alternating")
    one, found = run(trainer, 4)
    other, _ = run(trainer, 4)
    assert_same_bits(one.agent, other.agent)
    assert sum(float(m["episodes"]) for m in found) > 2


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


def test_an_environment_that_hangs():
    source = Ledger(trouble=lambda: time.sleep(4.0))
    trainer = make_host_trainer(counting(), source, PPO, HostSettings(mode="batched", time_limit=0.3))
    state = trainer.init(jax.random.key(0))
    began = time.monotonic()
    with pytest.raises(EnvironmentFailure, match=r"hangs in step 5: no answer within 0.3 s"):
        trainer.step(state)
    assert time.monotonic() - began < 4.0
    trainer.close()


def test_busy_is_the_time_in_which_any_works():
    busy, began = Busy(), time.perf_counter()
    with busy, busy:  # two at once
        time.sleep(0.05)
    worked = busy.seconds
    time.sleep(0.2)
    assert busy.seconds == worked and 0.05 <= worked <= time.perf_counter() - began - 0.2


def test_greedy_episodes_are_whole_ones():
    trainer = make_host_trainer(counting(), Ledger(), PPO)
    total, length, finished = trainer.play(jnp.int32(0), jax.random.key(0), 3)
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
