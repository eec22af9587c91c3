"""Actors in threads of their own: how far behind they are, and the replay ratio."""

import dataclasses
import queue
import threading
from types import SimpleNamespace

import jax
import pytest

from purerl.algos.dqn import dqn
from purerl.algos.ppo import ppo
from purerl.extensions.host.actors import Actors
from purerl.extensions.host.rollout import GroupRollout
from purerl.extensions.host.trainer import HostSettings, make_host_trainer
from purerl.spaces import Discrete
from tests.extensions.host.counting import DQN, PPO, assert_same_bits, dressed, run
from tests.extensions.host.ledger import Ledger


@pytest.mark.long
def test_deterministic_async_is_exactly_one_version_behind():
    trainer = dressed(ppo, PPO, mode="async", num_actors=2, deterministic=True)
    one, metrics = run(trainer, 6)
    other, _ = run(trainer, 6)
    assert_same_bits(one.agent, other.agent)
    assert [float(m.algorithm["policy_lag"]) for m in metrics] == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.long
def test_async_holds_the_replay_ratio():
    config, source = dataclasses.replace(DQN, num_envs=6), Ledger()
    source.action_space = Discrete(n=3)
    trainer, updates = make_host_trainer(dqn, source, config, HostSettings(mode="async", num_actors=2)), 100
    for delay in (0.0, 0.004):  # actors that run ahead of the learner, and that hold it up
        source.delay, source.opened = delay, []
        state, found = run(trainer, updates)
        assert all(0 <= metrics.algorithm["policy_lag"] <= 3 for metrics in found)
        taken = sum(env.steps for env in source.opened) * 3
        planned = config.batch_size * config.num_gradient_steps / config.steps_per_update
        learned = int(state.agent.num_gradient_steps) * config.batch_size
        before_learning = config.learning_starts // config.steps_per_update * config.steps_per_update
        assert learned / (taken - before_learning) == pytest.approx(planned, rel=0.05)
        assert found[-1].algorithm["replay_ratio"] == pytest.approx(planned, rel=0.05)
        assert int(state.agent.num_updates) == updates


@pytest.mark.long
def test_async_learns_on_the_statistics_that_were_acted_on():
    """With a learning rate of almost 0 the policy that learns is the one that acted: no ratio may leave 1."""
    config = dataclasses.replace(
        PPO, rnn="none", num_epochs=1, normalize_observation=True, learning_rate=1e-20, rollout_length=8
    )
    trainer = dressed(ppo, config, mode="async", num_actors=2, deterministic=True)
    state = trainer.init(jax.random.key(3))
    sharp = jax.tree.map(lambda x: 3.0 * x, state.agent.params)
    _, found = run(trainer, 6, state._replace(agent=state.agent._replace(params=sharp)))
    assert [float(m.algorithm["policy_lag"]) for m in found] == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert max(abs(float(m.algorithm["approx_kl"])) for m in found) < 1e-5


def test_a_rollout_has_the_statistics_that_were_acted_on(monkeypatch):
    actors = object.__new__(Actors)
    actors._version, actors._length, actors._key, actors._deterministic = 0, 1, None, True
    actors._acting = SimpleNamespace(keys=lambda *_: None, statistics=lambda part: f"of the {part}")
    actors._stop, actors._parts, actors._rollouts = threading.Event(), [queue.Queue()], [queue.Queue()]
    actors._parts[0].put((0, "first policy"))

    def collect(*_):
        (actors._stop.set if actors._rollouts[0].qsize() else lambda: None)()
        return (GroupRollout(*[None] * 12),)

    monkeypatch.setattr("purerl.extensions.host.actors.collect", collect)
    actors._run(0, None)
    assert actors._rollouts[0].get()[1].statistics == "of the first policy"


def test_the_lag_is_the_mean_number_of_updates_since_the_policy_that_acted():
    actors = object.__new__(Actors)
    actors._rollouts = [queue.Queue() for _ in range(2)]
    for rollouts, made_by in zip(actors._rollouts, (3, 4), strict=True):
        rollouts.put((made_by, "rollout"))
    assert actors.take(5) == (("rollout", "rollout"), 1.5)
