"""Learning curves and what is shown while a run runs."""

import jax
import numpy as np
import pytest

from purerl import InputError, stats
from purerl.catalog.algorithms import ALGORITHMS
from purerl.reporting import metrics_csv, plot


def write_run(folder, seeds, points=20, evaluate_every=5):
    folder.mkdir()
    (folder / "config.toml").write_text("format = 1\nalgorithm = 'ppo'\nenvironment = 'CartPole-v1'\n")
    file = metrics_csv.Log(folder / "metrics.csv")
    for update in range(1, points + 1):
        rows = []
        for seed in range(seeds):
            evaluated = float(update) if update % evaluate_every == 0 else np.nan
            row = {"seed": seed, "update": update, "env_steps": 100 * update, "wall_seconds": 0.1}
            row |= {"episode_return": np.float32(update + seed if update > 2 else np.nan)}
            rows.append(row | {"evaluation_return": np.float32(evaluated)})
        file.write(rows)
    file.close()
    return folder


class Axes:
    """Notes what is drawn."""

    def __init__(self):
        self.lines, self.bands = [], []

    def plot(self, x, y, **style):
        self.lines.append((np.asarray(x), np.asarray(y), style))

    def fill_between(self, x, low, high, **style):
        self.bands.append((np.asarray(x), np.asarray(low), np.asarray(high)))


@pytest.mark.long
def test_a_curve_is_the_iqm_with_its_interval(tmp_path):
    columns = metrics_csv.read(write_run(tmp_path / "run", seeds=8) / "metrics.csv")
    axes = Axes()
    plot.curve(axes, columns, plot.Style("C0"))
    x, y, style = axes.lines[0]
    assert "IQM, 95% interval of 8 seeds" in style["label"]
    known = ~np.isnan(y)
    assert x[known][0] >= 300, "nothing is drawn before an episode has ended"
    np.testing.assert_allclose(y[known], x[known] / 100 + 3.5, rtol=1e-5)  # seeds are 0 .. 7 apart
    low, high = axes.bands[0][1][known], axes.bands[0][2][known]
    assert np.all((low < y[known]) & (y[known] < high))
    expected = stats.bootstrap_interval(jax.random.key(0), np.arange(8.0), resamples=400)
    np.testing.assert_allclose([low[-1] - 20, high[-1] - 20], expected, atol=1e-4)
    greedy = axes.lines[-1]
    assert greedy[0].tolist() == [500, 1000, 1500, 2000]
    assert greedy[1].tolist() == [5, 10, 15, 20]
    assert greedy[2]["linewidth"] == plot.THICK > style["linewidth"] == plot.THIN


@pytest.mark.pictures
@pytest.mark.parametrize("seeds", [1, 2, 4])
def test_the_picture_has_axes_with_names(tmp_path, seeds):
    from PIL import Image

    path = plot.plot_run(write_run(tmp_path / "run", seeds))
    assert path == tmp_path / "run" / "curve.png"
    with Image.open(path) as image:
        assert image.size == (1040, 624)
        assert len(image.getcolors(1 << 24)) > 20
    svg = tmp_path / "curve.svg"
    plot.plot_run(tmp_path / "run", svg)
    text = svg.read_text()
    for label in ("PPO on CartPole-v1", "environment steps of each seed", "episode return (sum of rewards)"):
        assert f"<!-- {label} -->" in text


def test_several_runs_are_named(tmp_path):
    folders = [write_run(tmp_path / name, seeds=2) for name in ("first", "second")]
    text = plot.plot_runs(folders, tmp_path / "both.svg").read_text()
    assert "first (mean, range of 2 seeds)" in text
    assert "second (mean, range of 2 seeds)" in text


@pytest.mark.parametrize(("runs", "beside"), [(3, False), (plot.INSIDE + 1, True)])
def test_many_names_cover_no_curve(tmp_path, runs, beside):
    columns = metrics_csv.read(write_run(tmp_path / "run", seeds=1) / "metrics.csv")
    figure = plot.new_figure(11, 4.8)
    axes = figure.add_subplot()
    plot.panel(axes, [(f"run {i}", columns) for i in range(runs)], "many")
    figure.draw_without_rendering()
    legend, curves = axes.get_legend().get_window_extent(), axes.get_window_extent()
    assert (legend.x0 >= curves.x1) == beside
    assert legend.x1 <= figure.bbox.x1


def test_bad_input(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        plot.plot_runs([tmp_path], tmp_path / "x.png")
    folder = write_run(tmp_path / "run", 1)
    with pytest.raises(InputError, match="cannot write"):
        plot.plot_run(folder, tmp_path / "no" / "x.png")
    with pytest.raises(InputError, match="cannot write"):
        plot.plot_run(folder, tmp_path / "x.nonsense")
    (folder / "metrics.csv").write_text("seed,update\n")
    with pytest.raises(InputError, match="no rows"):
        plot.plot_run(folder)


def test_a_metric_over_time_and_smoothed(tmp_path):
    """The mean of each row and the two before it, over seconds; evaluations have no line."""
    folder = write_run(tmp_path / "run", seeds=1)
    columns = metrics_csv.read(folder / "metrics.csv")
    columns["wall_seconds"], columns["entropy"] = np.arange(20.0), np.arange(20.0) ** 2
    axes = Axes()
    plot.curve(axes, columns, plot.Style("C0"), view=plot.PlotView(metric="entropy", x="wall", smooth=3))
    (x, y, style), *more = axes.lines
    assert x[0] == 0 and x[-1] == 19 and style["label"] == "entropy" and not more
    expected = [np.mean(np.arange(20.0)[max(0, i - 2) : i + 1] ** 2) for i in range(20)]
    np.testing.assert_allclose(np.interp(np.arange(20.0), x, y), expected, atol=0.5)
    np.testing.assert_allclose(plot.smoothed(np.arange(20.0) ** 2, 3), expected)
    with pytest.raises(InputError, match="unknown metric 'entropie': did you mean 'entropy'"):
        plot.curve(axes, columns, plot.Style("C0"), view=plot.PlotView(metric="entropie"))


def test_tasks_have_axes_of_their_own(tmp_path):
    folders = [write_run(tmp_path / name, seeds=1) for name in ("one", "two", "other")]
    config = folders[2] / "config.toml"
    config.write_text(config.read_text().replace("CartPole-v1", "Acrobot-v1"))
    text = plot.plot_runs(folders, tmp_path / "all.svg").read_text()
    assert text.count('id="axes_') == 2, "it was one"


def test_no_two_of_several_levels_look_alike():
    axes = plot.new_figure(8, 4.8).add_subplot()
    columns = {name: np.arange(3.0) for name in ("env_steps", "episode_return")}
    columns |= {"seed": np.zeros(3), "evaluation_return": np.full(3, np.nan)}
    plot.panel(axes, [("run", columns)], "Catch", levels={f"level {i}": float(i) for i in range(5)})
    lines = [line for line in axes.get_lines() if line.get_label().startswith("level")]
    assert len({(line._dash_pattern[0], tuple(line._dash_pattern[1])) for line in lines}) == 5
    assert [line.get_ydata()[0] for line in lines] == [0, 1, 2, 3, 4]


def test_no_two_of_thirty_runs_look_alike():
    styles = [plot.Style.of(i, 30) for i in range(30)]
    assert len({(style.color, style.dashes) for style in styles}) == 30
    assert not any(style.seeds for style in styles)
    assert plot.Style.of(0, plot.SEEDS_SHOWN).seeds


def test_an_algorithm_has_one_color_in_every_picture():
    colors = [plot.color_of(name) for name in ALGORITHMS]
    assert len(set(colors)) == len(ALGORITHMS)
    one, other, again = plot.styles(["dqn", "ppo", "ppo"])
    assert (one.color, other.color) == (plot.color_of("dqn"), plot.color_of("ppo"))
    assert again.color == other.color and again.dashes != other.dashes
    assert plot.styles(["ppo", "dqn"])[0].color == other.color
    assert plot.styles(["ppo", "ppo"])[1].color == "C1" and plot.styles(["mine", "ppo"])[1].color == "C1"


@pytest.mark.parametrize(("runs", "thin"), [(2, 3), (plot.SEEDS_SHOWN + 1, 0)])
def test_seeds_have_lines_of_their_own_where_runs_are_few(tmp_path, runs, thin):
    columns = metrics_csv.read(write_run(tmp_path / "run", seeds=3) / "metrics.csv")
    axes = plot.new_figure(8, 4.8).add_subplot()
    plot.panel(axes, [(f"run {i}", columns) for i in range(runs)], "some")
    assert sum(line.get_linewidth() == 0.5 for line in axes.get_lines()) == runs * thin


@pytest.mark.long_for("20-log")
@pytest.mark.parametrize(("times", "scale"), [(2, "linear"), (20, "log")])
def test_runs_of_very_different_lengths_share_a_logarithmic_axis(tmp_path, times, scale):
    columns = metrics_csv.read(write_run(tmp_path / "run", seeds=1) / "metrics.csv")
    longer = columns | {"env_steps": columns["env_steps"] * times}
    figure = plot.new_figure(8, 4.8)
    axes = figure.add_subplot()
    plot.panel(axes, [("short", columns), ("long", longer)], "two")
    figure.draw_without_rendering()
    assert axes.get_xscale() == scale
    low, high = axes.get_xlim()
    assert low < columns["env_steps"].max() / 2 and high > longer["env_steps"].max()


@pytest.mark.parametrize("name", ["$\\frac{1}{", "_hidden", "a$b$", "\x1b[2Jx", "x" * 500, "\\$", "$"])
def test_names_are_shown_as_they_are(name, tmp_path):
    """Also in the legend, where a name that begins with _ would be left out."""
    figure = plot.new_figure(4, 3)
    axes = figure.add_subplot()
    columns = {"seed": np.zeros(2), "env_steps": np.arange(2.0), name: np.arange(2.0)}
    columns["evaluation_return"] = np.full(2, np.nan)
    plot.panel(axes, [(name, columns), ("other", columns)], name, plot.PlotView(metric=name), levels={name: 0.5})
    plot.save(figure, tmp_path / "a.png")
    shown = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(shown) == 3 and all(text.isprintable() and len(text) < 200 for text in shown)
    if len(name) < 10 and name.isprintable():
        assert shown[0].strip().replace("\\$", "$").startswith(name)
