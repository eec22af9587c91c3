"""Published curves are those of `configs/`, each file's head still is a config, and short runs reach the same."""

import importlib
import importlib.util

import numpy as np
import pytest

import purerl
from purerl import registry
from purerl.errors import InputError
from purerl.settings import runs

pytestmark = pytest.mark.publish


@pytest.fixture(scope="module")
def figures(script):
    return importlib.import_module("figures").FIGURES


def published(figures, files):
    """The figures that have a result, with it, as far as their suites are installed here."""
    paths = [(figure, files.path_of(figure.task, figure.label)) for figure in figures if installed(figure.task)]
    return [(figure, files.read(path)) for figure, path in paths if path.exists()]


def installed(task):
    suite, slash, _ = task.partition("/")
    also = "imageio" if suite == "gymnasium" else "purerl"  # MuJoCo's environments need it
    return not slash or (registry.installed(suite) and importlib.util.find_spec(also) is not None)


def test_results_are_those_of_the_settings_in_configs(script, figures, files, tmp_path):
    found = published(figures, files)
    assert found
    for figure, result in found:
        assert files.same(result.head, script.settings_for(figure)), f"{figure}: run it --again"
        assert result.made["settings_digest"] == files.digest(files.chosen(result.head))
        head = head_of(files.path_of(figure.task, figure.label), tmp_path / "head.toml")
        assert runs.settings(None, None, {}, {}, head).config == script.settings_for(figure).config
        assert {"commit", "device", "jax", "frames"} <= result.made.keys()
        assert runs.defaults_path(figure.algorithm, figure.task).is_file()
        assert np.isfinite(result.final()).all() and len(result.final()) == result.head["seeds"]


@pytest.fixture(scope="module")
def small(script, figures, tmp_path_factory):
    """A short run of two seeds, published in an empty folder."""
    folder = tmp_path_factory.mktemp("curves")
    changes = {"total_timesteps": 4096, "eval_episodes": 4, "evaluations": 2}
    figure = figures[0]._replace(changes=changes, seeds=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script, "RUNS", folder / "runs")
        assert script.train(figure, None, False, folder) == 0
        script.play_randomly(figure.task, False, folder)
        yield figure, folder


def test_a_run_becomes_a_file_that_tells_all(script, files, small):
    figure, folder = small
    result = files.read(files.path_of(figure.task, figure.label, folder))
    assert result.made["frames"] == 4096 and result.head["hidden_sizes"] == [64, 64]
    assert result.head["env"]["time_limit"] == 500
    assert set(result.columns) == set(files.COLUMNS) and sorted(set(result.columns["seed"])) == [0, 1]
    assert len(result.final()) == 2 and (result.final() >= 8).all()
    assert files.same(result.head, script.settings_for(figure))
    assert not files.same(result.head, script.settings_for(figure._replace(changes={"learning_rate": 1.0})))
    head = head_of(files.path_of(figure.task, figure.label, folder), folder / "head.toml")
    agent = purerl.load_run(folder / "zoo" / "ppo-CartPole-v1.safetensors")
    best = int(np.argmax(result.final()))
    assert agent.settings.options.seed == best
    assert agent.evaluate(4).episode_return.mean() == pytest.approx(result.final()[best], rel=1e-5)
    again = runs.settings(None, None, {}, {}, head)
    assert again.config == script.settings_for(figure).config


def test_new_agents_are_published_in_the_clone_and_listed(script, small, tmp_path, monkeypatch):
    for name, path in (("PACKAGE", "package"), ("CLONE", "clone"), ("NAMES", "package/repository.txt")):
        monkeypatch.setattr(script.zoo, name, tmp_path / path)
    (tmp_path / "package").mkdir()
    shipped = tmp_path / "package" / "shipped.safetensors"
    shipped.touch()
    trained = purerl.load_run(small[1] / "runs" / small[0].task / small[0].label)
    for name in ("new", "shipped"):
        script.ship_agent(trained, 0, name)
    assert (tmp_path / "clone" / "new.safetensors").read_bytes() == shipped.read_bytes() != b""
    assert script.zoo.NAMES.read_text() == "new\n" and script.zoo.names() == ["new", "shipped"]
    monkeypatch.setattr(script, "MOST_BYTES", 10)
    script.ship_agent(trained, 0, "new")
    assert script.zoo.names() == ["shipped"]


def test_a_stopped_run_is_gone_on_with(script, small, monkeypatch):
    figure, folder = small
    monkeypatch.setattr(script, "RUNS", folder / "runs")
    run = folder / "runs" / figure.task / figure.label
    before = (run / "config.toml").stat().st_mtime_ns
    assert script.train(figure, None, False, folder / "elsewhere") == 0
    assert (run / "config.toml").stat().st_mtime_ns == before and (folder / "elsewhere" / figure.task).is_dir()
    changed = figure._replace(changes=figure.changes | {"learning_rate": 1.0})
    assert script.train(changed, None, False, folder / "again") == 0
    assert (run / "config.toml").stat().st_mtime_ns > before


def head_of(path, written):
    """Write the head of a result as a config.toml."""
    lines = [line[2:] for line in path.read_text().split("# [result]")[0].splitlines() if line.startswith("#")]
    written.write_text("\n".join(lines))
    return written


def test_finished_curves_stay(script, files, small, capsys):
    figure, folder = small
    path = files.path_of(figure.task, figure.label, folder)
    before = path.read_bytes()
    assert script.train(figure, None, False, folder) == 0
    assert path.read_bytes() == before
    assert script.train(figure._replace(changes={"learning_rate": 1.0}), None, False, folder) == 0
    assert "--again makes it again" in capsys.readouterr().out and path.read_bytes() == before


def test_a_curve_gets_the_seeds_that_are_missing(script, files, small):
    figure, folder = small
    path = files.path_of(figure.task, figure.label, folder)
    before = path.read_bytes()
    agent = folder / "zoo" / "ppo-CartPole-v1.safetensors"
    shipped = agent.read_bytes()
    assert script.train(figure, 3, False, folder) == 0
    three, two = files.read(path), len(before.splitlines())
    assert three.head["seeds"] == 3 and three.head["seed"] == 0 and three.made["earlier"].startswith("seeds below 2")
    assert set(three.columns["seed"]) == {0, 1, 2}
    rows = [line for line in path.read_bytes().splitlines() if not line.startswith(b"#")]
    assert set(before.splitlines()[two - 4 :]) <= set(rows) and len(three.final()) == 3
    assert (agent.read_bytes() != shipped) == bool(three.final()[2] > three.final()[:2].max())
    path.write_bytes(before)
    agent.write_bytes(shipped)


def test_seeds_on_the_host_are_trained_one_after_the_other(script, files, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "RUNS", tmp_path / "runs")
    changes = {"total_timesteps": 64, "num_envs": 2, "rollout_length": 16, "hidden_sizes": [8], "sampler": "serial"}
    changes |= {"evaluations": 0, "eval_episodes": 4}
    figure = script.Figure("gymnasium/CartPole-v1", "ppo", changes=changes, seeds=2)
    assert script.train(figure, None, False, tmp_path) == 0
    result = files.read(files.path_of(figure.task, figure.label, tmp_path))
    assert sorted(set(result.columns["seed"])) == [0, 1] and len(result.final()) == result.head["seeds"] == 2
    assert len(set(result.columns["episode_return"])) > 2 and files.same(result.head, script.settings_for(figure))
    script.play_randomly(figure.task, False, tmp_path)
    by_chance = files.read(files.path_of(figure.task, "random", tmp_path)).final()
    assert len(by_chance) == script.RANDOM_SEEDS and 10 < by_chance.mean() < 40


def test_agents_may_be_judged_in_another_environment(script, files, small, monkeypatch):
    figure, folder = small
    monkeypatch.setattr(script, "RUNS", folder / "runs")
    assert script.train(figure._replace(judged={"time_limit": 5}), None, False, folder / "judged") == 0
    result = files.read(files.path_of(figure.task, figure.label, folder / "judged"))
    assert result.final().tolist() == [5.0, 5.0] and result.made["judged"] == "time_limit = 5"
    assert result.head["env"]["time_limit"] == 500 and np.isnan(result.columns["evaluation_return"]).sum() > 0


def test_worse_means_more_than_chance(script):
    old = np.array([100.0, 110.0, 90.0, 105.0, 95.0])
    compare = lambda new: script.Comparison(None, 0, np.array(new), old)
    assert not compare([95.0, 99.0, 101.0, 93.0]).worse
    assert not compare([180.0, 190.0, 200.0, 210.0]).worse
    assert compare([60.0, 63.0, 61.0, 58.0]).worse


def test_short_runs_reach_what_is_published(script):
    figure = script.select(["CartPole-v1"], ["ppo"])[0]
    found = script.check(figure, steps=20_000)
    assert found.env_steps <= 20_000 and len(found.new) == script.CHECK_SEEDS
    assert found.published.mean() > 40, "it has learned something by then"
    assert not found.worse, (found.new, found.published)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_short_runs_reach_what_is_published(script, figures, files):
    for figure in (figure for figure, _ in published(figures, files) if not figure.peer):
        found = script.check(figure)
        assert not found.worse, (figure, found.new, found.published)


def test_no_task_is_an_error(script):
    with pytest.raises(InputError, match="name a task"):
        script.main([])
