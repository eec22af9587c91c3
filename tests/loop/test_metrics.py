"""Episode statistics and sums of metrics against plain lists."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.loop.metrics import EpisodeStatistics, MetricsSum, TrainMetrics, failure, with_unknown


def test_nothing_has_ended():
    summary = EpisodeStatistics.clear(3, ("speed",)).summary()
    assert summary.pop("episodes") == 0
    assert set(summary) == {
        *(f"episode_{what}{which}" for what in ("return", "length") for which in ("", "_min", "_max")),
        "info/speed",
    }
    assert all(np.isnan(value) for value in summary.values())


def test_against_a_list_of_episodes():
    rng = np.random.default_rng(1)
    num_envs, steps = 4, 200
    statistics = EpisodeStatistics.clear(num_envs, ("speed",))
    total, length = np.zeros(num_envs, np.float32), np.zeros(num_envs, np.int32)
    episodes = []
    for _ in range(steps):
        reward = rng.normal(size=num_envs).astype(np.float32)
        done = rng.random(num_envs) < 0.1
        speed = rng.normal(size=num_envs).astype(np.float32)
        total, length = total + reward, length + 1
        statistics = statistics.add(
            jnp.asarray(done), jnp.asarray(total), jnp.asarray(length), {"speed": jnp.asarray(speed)}
        )
        episodes += [(total[i], length[i], speed[i]) for i in np.flatnonzero(done)]
        total, length = np.where(done, 0, total), np.where(done, 0, length)
    returns, lengths, speeds = map(np.array, zip(*episodes, strict=True))
    assert len(episodes) > 40
    expected = {
        "episodes": len(episodes),
        "episode_return": returns.mean(),
        "episode_return_min": returns.min(),
        "episode_return_max": returns.max(),
        "episode_length": lengths.mean(),
        "episode_length_min": lengths.min(),
        "episode_length_max": lengths.max(),
        "info/speed": speeds.mean(),
    }
    summary = statistics.summary()
    assert set(summary) == set(expected)
    for name, value in expected.items():
        assert summary[name].dtype == jnp.float32
        np.testing.assert_allclose(summary[name], value, rtol=1e-5, err_msg=name)


def test_environments_without_an_episode_do_not_count():
    """One episode of return -5 in the second of two environments: no zero is averaged in."""
    statistics = EpisodeStatistics.clear(2).add(jnp.array([False, True]), jnp.array([3.0, -5.0]), jnp.array([7, 9]), {})
    summary = statistics.summary()
    for name, value in {"return": -5, "return_min": -5, "return_max": -5, "length": 9, "length_min": 9}.items():
        assert summary[f"episode_{name}"] == value
    assert summary["episodes"] == 1


def finished(returns, lengths):
    """Return statistics of a batch of environments of which each ends an episode, or none where its return is None."""
    over = jnp.array([x is not None for x in returns])
    numbers = lambda values, kind: jnp.array([0 if x is None else x for x in values], kind)
    none = EpisodeStatistics.clear(len(returns))
    return none.add(over, numbers(returns, jnp.float32), numbers(lengths, jnp.int32), {})


def test_means_are_over_episodes_and_over_updates():
    """Returns are means over all episodes, not over updates; losses are means over updates."""
    updates = [([1.0, None], [3, None], 2.0), ([None, None], [None, None], 4.0), ([5.0, 9.0], [1, 8], 9.0)]
    total = None
    for returns, lengths, loss in updates:
        statistics, metrics = finished(returns, lengths), {"loss": jnp.float32(loss)}
        total = MetricsSum.zeros(statistics, metrics) if total is None else total
        total = jax.jit(MetricsSum.add)(total, statistics, metrics)
    found = {name: float(value) for name, value in total.means().flat().items()}
    assert found["episodes"] == 3 and found["loss"] == 5.0
    assert (found["episode_return"], found["episode_length"]) == (5.0, 4.0)
    assert (found["episode_return_min"], found["episode_return_max"]) == (1.0, 9.0)
    assert (found["episode_length_min"], found["episode_length_max"]) == (1.0, 8.0)


@pytest.mark.long
def test_without_episodes_there_is_no_return():
    statistics, metrics = finished([None], [None]), {"loss": jnp.float32(3.0)}
    none = MetricsSum.zeros(statistics, metrics)
    assert int(none.updates) == 0 and np.isnan(none.means().algorithm["loss"])
    episodes, algorithm = none.add(statistics, metrics).means()
    assert np.isnan(episodes["episode_return"]) and float(episodes["episodes"]) == 0
    assert float(algorithm["loss"]) == 3.0


def test_a_metric_that_is_nan_is_not_known():
    """Its mean is over the updates in which it is a number, whatever the others are."""
    statistics = finished([None], [None])
    total = MetricsSum.zeros(statistics, {"loss": jnp.float32(0), "aux": jnp.float32(0), "never": jnp.float32(0)})
    for loss, aux in ((1.0, jnp.nan), (2.0, 5.0), (6.0, jnp.nan), (3.0, 7.0)):
        now = {"never": jnp.float32(jnp.nan), "loss": jnp.float32(loss), "aux": jnp.float32(aux)}
        total = total.add(statistics, now)
    means = total.means().algorithm
    assert (float(means["loss"]), float(means["aux"])) == (3.0, 6.0) and np.isnan(means["never"])


@pytest.mark.parametrize(
    ("metrics", "params", "found"),
    [
        ({"aux": jnp.nan, "loss": 1.0}, 1.0, (False, None, None)),
        ({"aux": jnp.nan, "loss": jnp.inf}, 1.0, (True, "loss", True)),
        ({"aux": jnp.nan, "loss": jnp.nan}, jnp.nan, (True, "loss", False)),
        ({"aux": 1.0, "loss": 1.0}, 1.0, (False, None, None)),
    ],
)
def test_an_update_fails_by_its_loss_or_its_parameters(metrics, params, found):
    statistics, number = finished([None], [None]), lambda values: {k: jnp.float32(v) for k, v in values.items()}
    before = MetricsSum.zeros(statistics, number(metrics)).add(statistics, number({"aux": jnp.nan, "loss": 1.0}))
    agent = {"params": {"w": jnp.array([1.0, params])}, "last_seen": jnp.full(3, jnp.nan)}
    failed, metric, infinite = failure(number(metrics), agent, before)
    assert bool(failed) == found[0]
    if failed:
        assert (sorted(metrics)[int(metric)], bool(infinite)) == found[1:]


@pytest.mark.long
def test_an_algorithm_metric_cannot_have_the_name_of_a_statistic():
    with pytest.raises(InputError, match="metric 'episode_length' of the algorithm has the name of an episode stat"):
        EpisodeStatistics.clear(2).metrics({"loss": jnp.float32(0), "episode_length": jnp.float32(1)})


def test_what_is_not_known_does_not_stop_jaxs_finder_of_nans():
    nothing = EpisodeStatistics.clear(2)
    sums = MetricsSum.zeros(nothing, {"loss": 0, "learning": 0}).add(nothing, {"loss": 0.0, "learning": 0.0})
    with jax.debug_nans(True):
        means = jax.jit(MetricsSum.means)(sums)
        with pytest.raises(FloatingPointError):
            jax.jit(jnp.log)(jnp.float32(-1))
    known = with_unknown(jax.device_get(means))
    assert known.episodes["episodes"] == 0 and np.isnan(known.episodes["episode_return"])
    assert np.isnan(known.algorithm["loss"]) and known.algorithm["learning"] == 0
    some = TrainMetrics({"episodes": np.array([2, 0]), "episode_return": np.array([0.0, 0.0])}, {"loss": 1.0})
    np.testing.assert_array_equal(with_unknown(some).episodes["episode_return"], [0, np.nan])
    assert with_unknown(some).algorithm == {"loss": 1.0}
