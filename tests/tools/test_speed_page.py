"""The charts of the benchmarks page are made from the files, and show slower results, too."""

import dataclasses

import pytest

from purerl import registry

pytestmark = pytest.mark.publish


def test_the_pictures_show_what_the_files_hold(script):
    """A chart whose file has changed: `python tools/speed_page.py`."""
    for name, chart in script.CHARTS.items():
        data = script.picture_file.digest(chart()[1])
        assert script.picture_file.shown(script.STATIC / f"{name}.png") == data, "python tools/speed_page.py"


def test_the_first_chart_shows_each_comparison_of_its_groups(script):
    for part in script.PARTS:
        rows = script.records(part.file, part.groups)
        compared = [row for row in rows if row.get(script.SPEED) and (not part.peers or row["by"] in part.peers)]
        shown = script.speedups(part)
        assert sorted(script._median(row[script.SPEED]) for row in compared) == sorted(row.median for row in shown)
    assert min(row.median for part in script.PARTS for row in script.speedups(part)) < 0.7


def test_a_panel_over_time_has_one_program_s_speed_and_returns(script):
    """The settings that decide the speed are equal in the result and in the benchmark."""
    from benchmarks import training

    problems = {f"{p.name}, {p.environment}": p for suite in training.SUITES.values() for p in suite}
    for timed in script.TIMED:
        problem = problems[timed.row]
        config = dataclasses.asdict(registry.algorithm(problem.algorithm)[1](**problem.settings))
        decisive = {"num_envs", "rollout_length", "num_minibatches", "num_epochs", "hidden_sizes", "batch_size"}
        decisive |= {"num_gradient_steps", "activation", "rnn", "rnn_size", "replay_capacity", "share_body", "network"}
        for label in (timed.label, f"{timed.label}-by-{timed.peer}"):
            head = script.read(script.path_of(timed.task, label)).head
            assert head["algorithm"] == problem.algorithm
            for name in decisive & set(config) & set(head):
                value = config[name]
                assert head[name] == (list(value) if isinstance(value, tuple) else value), (timed.row, label, name)


def test_seconds_by_hand(script):
    timed = script.TIMED[0]
    (row,) = [r for r in script.records(timed.file, [timed.group]) if (r["task"], r["by"]) == (timed.row, "purerl")]
    seconds, returns = script.over_time(timed, timed.label, "purerl")
    result = script.read(script.path_of(timed.task, timed.label))
    assert seconds[-1] == pytest.approx(row["compile"] + result.made["frames"] / row["environment steps/s"]["median"])
    assert returns[-1] == pytest.approx(result.final().mean())
