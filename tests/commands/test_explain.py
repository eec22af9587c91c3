"""`purerl explain`: the settings reach the measurement, and its lines are printed."""

from click.testing import CliRunner

from purerl.commands.cli import cli
from purerl.profiling import explain
from tests.helpers.cli import told


def test_settings_reach_the_measurement(monkeypatch):
    asked = []
    monkeypatch.setattr(explain, "explain", lambda run, tell: asked.append(run))
    monkeypatch.setattr(explain, "lines", lambda run, found: [f"{run.algorithm} on {run.environment}", "fast"])
    words = ["explain", "dqn", "CartPole-v1", "--batch-size", "8", "--seeds", "3", "--env.gravity", "5"]
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.output == "dqn on CartPole-v1\nfast\n"
    (run,) = asked
    assert (run.config.batch_size, run.options.seeds, run.parameters) == (8, 3, {"gravity": 5.0})


def test_an_extension_that_replaces_the_loop(capsys):
    code, err = told(capsys, "explain", "ppo", "Maze", "--levels", "accel")
    assert code == 2 and "the compiled loop only, which levels replaces" in err and err.count("\n") == 1, err
