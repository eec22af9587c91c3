"""Episode statistics against plain lists of episodes."""

import jax.numpy as jnp
import numpy as np

from purerl.loop.metrics import EpisodeStatistics


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
