"""A sweep's curves and results."""

import numpy as np
import pytest

from purerl import LogUniform
from purerl.algos.ppo import PPOConfig
from purerl.settings.options import RunOptions
from purerl.settings.runs import Settings
from purerl.sweeps.plan import SearchOptions, make_sweep_plan
from purerl.sweeps.result import Curves, SweepResult


def test_curves_judge_by_the_last_tenth():
    curves = Curves.empty(np.tile(np.arange(1, 21) * 10, (2, 1)), 2)
    curves.trained[:] = 20, 5
    curves.episode_return[0, 0] = np.arange(20)
    curves.episode_return[0, 1, :15] = np.arange(15)  # no episode ended since
    curves.episode_return[1, :, :5] = [[1, 2, 3, 4, 5], [np.nan] * 5]
    np.testing.assert_array_equal(curves.final_return(), [[18.5, 14], [5, np.nan]])
    np.testing.assert_array_equal(curves.final_return(10), [[9, 9], [5, np.nan]])
    curves.failed[0, 1] = True
    np.testing.assert_array_equal(curves.final_return()[0], [18.5, np.nan])


@pytest.fixture
def result(tmp_path):
    """Three trials of two seeds, the first of which were trained longer."""
    config = PPOConfig(rollout_length=16, num_minibatches=2, hidden_sizes=(8,), total_timesteps=64 * 20)
    run = Settings(
        algorithm="ppo", environment="CartPole-v1", options=RunOptions(seeds=2), config=config, parameters={}
    )
    over = {"learning_rate": LogUniform(1e-4, 1e-1)}
    plan = make_sweep_plan(run, SearchOptions(method="random", trials=3, points=5), over)
    curves = Curves.empty(plan.env_steps(), 2)
    curves.episode_return[:] = np.arange(3)[:, None, None]
    curves.trained[:] = 5, 5, 2
    return SweepResult(plan, curves, [[values] * 2 for values in plan.trials], tmp_path)


def test_where_the_longest_failed_the_next_count(result):
    assert result.best == result.plan.trials[1] and result.best_return == 1
    result.curves.failed[:2, 0] = True
    assert result.best == result.plan.trials[2] and result.best_return == 2
    assert np.isnan(result.scores()[:2]).all()


@pytest.mark.long
def test_where_all_failed_there_is_no_best(result):
    result.curves.failed[:] = True
    assert result.best == {} and np.isnan(result.best_return)
    result.save()
    assert [path.name for path in result.folder.iterdir()] == ["trials.csv"]
