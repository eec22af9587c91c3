"""Metrics of updates that only collect."""

import jax
import numpy as np

from purerl.algos.dqn import dqn
from purerl.loop.metrics import MetricsSum
from purerl.loop.vector import EpisodeStatistics
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
