"""Plots of a sweep whose returns are known."""

import numpy as np
import pytest
from PIL import Image

from purerl import LogUniform
from purerl.algos.ppo import PPOConfig
from purerl.settings.options import RunOptions
from purerl.settings.runs import Settings
from purerl.sweeps import plot
from purerl.sweeps.plan import SearchOptions, make_sweep_plan
from purerl.sweeps.result import Curves, SweepResult

OVER = {"learning_rate": LogUniform(1e-4, 1e-1), "num_envs": [2, 4], "discount": [0.9, 0.99]}


@pytest.fixture
def result(tmp_path):
    return result_of("random", tmp_path)


def result_of(method, folder):
    """Twelve trials of two seeds: trial i returns i at every point; the last one failed."""
    over = OVER if method == "random" else {"learning_rate": OVER["learning_rate"]}
    config = PPOConfig(rollout_length=16, num_minibatches=2, hidden_sizes=(8,), total_timesteps=64 * 20)
    run = Settings(
        algorithm="ppo", environment="CartPole-v1", options=RunOptions(seeds=2), config=config, parameters={}
    )
    plan = make_sweep_plan(run, SearchOptions(method=method, trials=12, points=5, generations=5), over)
    curves = Curves.empty(plan.env_steps(), 2)
    curves.episode_return[:] = np.arange(12)[:, None, None] + np.array([0.0, 0.5])[:, None]
    curves.trained[:], curves.failed[11] = 5, True
    return SweepResult(plan, curves, [[values] * 2 for values in plan.trials], folder)


@pytest.mark.pictures
@pytest.mark.long
def test_three_pictures(result):
    paths = plot.plot_sweep(result)
    assert [path.name for path in paths] == ["curves.png", "sensitivity.png", "parallel.png"]
    for path in paths:
        with Image.open(path) as image:
            assert image.width > 300 and len(image.convert("RGB").getcolors(1 << 24)) > 20


def test_the_best_are_in_color_with_their_values(result):
    axes = plot.curves(result).axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [label.split(":")[0] for label in labels] == ["10.25", "9.25", "8.25", "7.25", "6.25"]
    assert "learning_rate" in labels[0] and axes.get_title().endswith("the best 5, and 7 others in grey")


def test_a_panel_for_each_thing_searched(result):
    figure = plot.sensitivity(result)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_xlabel() for axes in panels] == list(OVER)
    assert panels[0].get_xscale() == "log"
    assert [tick.get_text() for tick in panels[1].get_xticklabels()] == ["2", "4"]


def test_a_line_for_each_trial(result):
    axes = plot.parallel(result).axes[0]
    lines = [line for line in axes.lines if len(line.get_xdata()) == len(OVER) + 1]
    assert len(lines) == 12
    heights = np.array([line.get_ydata() for line in lines])
    assert heights.min() >= 0 and heights.max() <= 1
    np.testing.assert_allclose(lines[-1].get_ydata()[-1], 1.0)  # the best is drawn last, on top


def test_each_agent_of_a_population_has_its_own_curve(tmp_path):
    result = result_of("pbt", tmp_path)
    result.values[10][1] = {"learning_rate": 0.0123}
    axes = plot.curves(result).axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[0] == "10.5: learning_rate 0.0123" and result.best == {"learning_rate": 0.0123}
    assert (
        axes.get_title().endswith("the best 5, and 19 others in grey")
        and len(plot.parallel(result).axes[0].lines) >= 24
    )


@pytest.mark.long
def test_a_trial_that_was_stopped_is_grey_and_never_the_best(result):
    result.curves.trained[8:] = 2
    axes = plot.sensitivity(result).axes[0]
    stopped, whole, best = (collection.get_offsets() for collection in axes.collections)
    assert best.data[:, 1].tolist() == [7.25], "the highest return of a trial that was trained to the end"
    assert sorted(y for y in stopped[:, 1].compressed() if np.isfinite(y)) == [8.25, 9.25, 10.25]
    assert np.nanmax(whole[:, 1]) == 7.25
