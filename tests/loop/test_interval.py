"""An interval of updates in a few numbers, against the lists that it stands for."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.loop.interval import Interval
from purerl.loop.metrics import EpisodeStatistics


def finished(returns, lengths):
    """Return statistics of a batch of environments of which each ends an episode, or none where its return is None."""
    over = jnp.array([x is not None for x in returns])
    numbers = lambda values, kind: jnp.array([0 if x is None else x for x in values], kind)
    none = EpisodeStatistics.clear(len(returns))
    return none.add(over, numbers(returns, jnp.float32), numbers(lengths, jnp.int32), {})


def test_means_are_over_episodes_and_over_updates():
    """Returns are means over all episodes, not over updates; losses are means over updates."""
    updates = [([1.0, None], [3, None], 2.0), ([None, None], [None, None], 4.0), ([5.0, 9.0], [1, 8], 9.0)]
    interval = None
    for returns, lengths, loss in updates:
        statistics = finished(returns, lengths)
        metrics = statistics.summary() | {"loss": jnp.float32(loss)}
        interval = Interval.empty(statistics, metrics) if interval is None else interval
        interval = jax.jit(Interval.add)(interval, statistics, metrics)
    found = {name: float(value) for name, value in interval.means().items()}
    assert found["episodes"] == 3 and found["loss"] == 5.0
    assert (found["episode_return"], found["episode_length"]) == (5.0, 4.0)
    assert (found["episode_return_min"], found["episode_return_max"]) == (1.0, 9.0)
    assert (found["episode_length_min"], found["episode_length_max"]) == (1.0, 8.0)


def test_without_episodes_there_is_no_return():
    statistics = finished([None], [None])
    metrics = statistics.summary() | {"loss": jnp.float32(3.0)}
    empty = Interval.empty(statistics, metrics)
    assert int(empty.updates) == 0 and float(empty.means()["loss"]) == 0.0
    means = empty.add(statistics, metrics).means()
    assert np.isnan(means["episode_return"]) and float(means["episodes"]) == 0 and float(means["loss"]) == 3.0
