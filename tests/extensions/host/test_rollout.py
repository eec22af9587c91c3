"""Rollouts of groups of environments, against a ledger by hand."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.extensions.host.acting import make_acting
from purerl.extensions.host.env_thread import Busy, Worker
from purerl.extensions.host.rollout import EnvGroup, collect
from tests.extensions.host.counting import PPO, counting
from tests.extensions.host.ledger import Ledger


def gathered(num_groups, size, length, rollouts, algo=None):
    source, algo = Ledger(), algo or counting()
    config = dataclasses.replace(PPO, num_envs=num_groups * size, rollout_length=length)
    acting = make_acting(algo, source, config, jax.eval_shape(algo.init, jax.random.key(0)), size).compiled()
    groups = []
    for i in range(num_groups):
        about = {"environment": source.id, "seed": 0, "group": str(i)}
        worker = Worker(source.open(size, 0, True), about, 10.0, None, Busy())
        groups.append(EnvGroup(worker, acting, i, algo.initial_carry(size), size))
        groups[-1].begin(worker.reset(None))
    keys = acting.keys(jax.random.key(0), 0)
    found = [collect(groups, acting.part(jnp.int32(0)), keys, length) for _ in range(rollouts)]
    for group in groups:
        group.worker.close()
    assert all(env.closed for env in source.opened)
    return found


@pytest.mark.long_for("2")
@pytest.mark.parametrize("num_groups", [1, 2])
def test_transitions_masks_and_memory(num_groups):
    """By hand: environment i acts 1, 2, .., i + 2, then a masked step, then again; the carry is reset each time."""
    size, length = 3, 5
    for group in range(num_groups):
        rollouts = [parts[group] for parts in gathered(num_groups, size, length, 6)]
        for i in range(size):
            period, flat = i + 3, 6 * length
            phase = np.arange(flat) % period  # phase of each step: period - 1 is the masked one
            masked = phase == period - 1
            of = lambda name, i=i, rs=rollouts: np.concatenate([np.asarray(getattr(r, name))[:, i] for r in rs])
            np.testing.assert_array_equal(of("mask"), ~masked)
            np.testing.assert_array_equal(of("terminated"), phase == period - 2)
            np.testing.assert_array_equal(of("truncated"), masked)
            action = np.concatenate([np.stack(r.action)[:, i] for r in rollouts])
            # A masked step acts on the final observation with a reset carry, and itself ends an episode.
            np.testing.assert_array_equal(action, np.where(masked, 1, phase + 1))
            np.testing.assert_array_equal(of("reward"), np.where(masked, 0, phase + 1))
            observed = np.concatenate([np.stack(r.observation)[:, i, 1] for r in rollouts])
            np.testing.assert_array_equal(observed, phase)
        for before, after in itertools.pairwise(rollouts):
            np.testing.assert_array_equal(before.last, after.observation[0])


def test_groups_draw_numbers_of_their_own():
    count = counting()

    def act(agent, carry, key, observation, explore):
        action, carry, _ = count.act(agent, carry, key, observation, explore)
        return action, carry, {"drawn": jax.random.bits(key, carry.shape)}

    one, other = gathered(2, 3, 5, 1, count._replace(act=act))[0]
    drawn = [np.stack([np.asarray(extras["drawn"]) for extras in part.extras]) for part in (one, other)]
    assert drawn[0].shape == (5, 3) and len(np.unique(drawn)) == 2 * 5 * 3
