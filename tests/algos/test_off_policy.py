"""Algorithms with a replay: metrics before they learn, normalized observations, observations only for critics."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import make
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.sac import SACConfig, sac
from purerl.algos.td3 import DDPGConfig, TD3Config, ddpg, td3
from purerl.loop.metrics import MetricsSum
from purerl.loop.train import collect, make_trainer
from purerl.loop.vector import EpisodeStatistics
from purerl.prng import update_keys
from tests.helpers.marks import rows
from tests.helpers.restated import Restated
from tests.helpers.tables import SPEC, TABLE, loop, small


def test_updates_before_learning_starts_do_not_count_in_the_metrics():
    """Learning starts in the fourth of five updates: the mean loss is that of two."""
    algorithm = dqn(SPEC, small(), network=TABLE)
    agent, update, losses = algorithm.init(jax.random.key(0)), jax.jit(algorithm.update), []
    none = EpisodeStatistics.clear(4)
    total = None
    for i in range(5):
        agent, metrics = update(agent, jax.random.key(i), loop(True))
        losses.append(float(metrics["loss"]))
        total = (total or MetricsSum.zeros(none, metrics)).add(none, metrics)
        if i == 2:
            early = total.means().algorithm
            assert losses == [0, 0, 0] and float(early["learning"]) == 0 and np.isnan(early["loss"])
    means = total.means().algorithm
    assert np.allclose([means["learning"], means["loss"]], [0.4, sum(losses[3:]) / 2])


SMALL = {"num_envs": 4, "rollout_length": 4, "learning_starts": 32, "batch_size": 16, "replay_capacity": 256}
KINDS = {
    "dqn": (dqn, DQNConfig(**SMALL, hidden_sizes=(8, 8)), "CartPole-v1"),
    "sac": (sac, SACConfig(**SMALL, hidden_sizes=(8,)), "Pendulum-v1"),
    "td3": (td3, TD3Config(**SMALL, hidden_sizes=(8,)), "Pendulum-v1"),
    "ddpg": (ddpg, DDPGConfig(**SMALL, hidden_sizes=(8,)), "Pendulum-v1"),
}


def run(factory, env, config, updates=8):
    trainer = make_trainer(factory, env, config)
    state, step = jax.jit(trainer.init)(jax.random.key(0)), jax.jit(trainer.step)
    for _ in range(updates):
        state, _ = step(state)
    return trainer, state


@pytest.mark.long
@pytest.mark.parametrize("name", rows(sorted(KINDS), {"dqn", "sac"}))
def test_normalized_observations_do_not_depend_on_their_scale(name):
    """The same actions and, to rounding, the same parameters, whatever unit observations are in."""
    factory, config, task = KINDS[name]
    config = dataclasses.replace(config, normalize_observation=True)

    @jax.jit
    def learned(scale, offset):
        trainer = make_trainer(factory, Restated(env=make(task), scale=scale, offset=offset), config)
        return jax.lax.fori_loop(0, 8, lambda _, state: trainer.step(state)[0], trainer.init(jax.random.key(0))).agent

    plain, moved = learned(1.0, 0.0), learned(64.0, 32.0)
    assert float(plain.observation_statistics.samples) == 8 * config.steps_per_update
    mean = 64.0 * plain.observation_statistics.mean + 32.0
    np.testing.assert_allclose(moved.observation_statistics.mean, mean, rtol=1e-3, atol=0.1)
    for one, other in zip(*(jax.tree.leaves(agent.params) for agent in (plain, moved)), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)
    config = dataclasses.replace(config, normalize_observation=False)
    without = jax.eval_shape(make_trainer(factory, make(task), config).init, jax.random.key(0))
    assert without.agent.observation_statistics is None


@pytest.mark.long
def test_statistics_are_those_of_all_observations():
    factory, config, task = KINDS["sac"]
    config = dataclasses.replace(config, normalize_observation=True)
    trainer = make_trainer(factory, make(task), config)
    state, step = jax.jit(trainer.init)(jax.random.key(0)), jax.jit(trainer.step)
    for _ in range(5):
        state, _ = step(state)
    stored = np.asarray(state.agent.replay.observation[: 5 * config.rollout_length]).reshape(-1, 3)
    np.testing.assert_allclose(state.agent.observation_statistics.mean, stored.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(state.agent.observation_statistics.variance, stored.var(axis=0), rtol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("name", rows(["sac", "td3"], {"sac"}))
def test_what_only_critics_see_moves_no_action(name):
    factory, config, task = KINDS[name]
    trainer, state = run(factory, Restated(env=make(task), privileged=True), config)
    _, rollout = jax.jit(lambda s: collect(trainer.algorithm, trainer.vector, s, jax.random.key(1), 4))(state)
    garbled = rollout.observation | {"global_state": rollout.observation["global_state"] + 5.0}
    act = jax.jit(lambda seen: trainer.algorithm.act(state.agent, (), jax.random.key(2), seen, False)[0])
    first = lambda tree: jax.tree.map(lambda x: x[0], tree)
    np.testing.assert_array_equal(act(first(rollout.observation)), act(first(garbled)))
    update = jax.jit(trainer.algorithm.update)
    agents = [
        update(state.agent, jax.random.key(3), rollout._replace(observation=seen))[0]
        for seen in (rollout.observation, garbled)
    ]
    different = [
        float(jnp.abs(one - other).max())
        for one, other in zip(*(jax.tree.leaves(agent.params["critics"]) for agent in agents), strict=True)
    ]
    assert max(different) > 1e-6


@pytest.mark.long
def test_rewards_are_scaled_where_they_are_learned_from():
    """Twice the rewards at scale 1 is scale 2, to the bit."""
    factory, config, task = KINDS["td3"]
    plain = run(factory, make(task), dataclasses.replace(config, reward_scale=2.0))[1]
    trainer = make_trainer(factory, make(task), config)
    state = jax.jit(trainer.init)(jax.random.key(0))

    @jax.jit
    def step(state):
        keys = update_keys(state.key, state.num_updates)
        after, rollout = collect(trainer.algorithm, trainer.vector, state, keys[0], config.rollout_length)
        agent, _ = trainer.algorithm.update(after.agent, keys[1], rollout._replace(reward=2.0 * rollout.reward))
        return after._replace(agent=agent, num_updates=state.num_updates + 1)

    for _ in range(8):
        state = step(state)
    for one, other in zip(*(jax.tree.leaves(s.agent.params) for s in (plain, state)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
