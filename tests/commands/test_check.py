"""`purerl check`: a report of a sound environment, one line for one that breaks the contract."""

import pytest
from click.testing import CliRunner

from purerl.commands import check
from purerl.commands.cli import cli
from purerl.commands.options import tell
from purerl.testing.report import Check, Report
from tests.helpers.cli import told


def test_the_report_is_printed(monkeypatch):
    import purerl.testing

    asked = {}

    def look(env, **settings):
        asked.update(settings, env=type(env).__name__)
        return Report("Catch", (Check("shapes"),), {"steps per second": 12.0})

    monkeypatch.setattr(purerl.testing, "check_environment", look)
    result = CliRunner().invoke(cli, ["check", "Catch", "--steps", "9"], catch_exceptions=False)
    assert result.stdout.splitlines() == ["Catch: 1 checks passed", "  ok  shapes", "      steps per second: 12"]
    assert asked == {"env": "Catch", "num_steps": 9, "name": "Catch", "measure": True, "say": tell}


def test_a_breach_is_one_line(capsys):
    code, err = told(capsys, "check", "tests.commands.test_cli:WrongReward")
    assert code == 2 and "reward is int32[]; it must be float32[]" in err and err.count("\n") == 1


def test_fewer_steps_than_can_be_checked_are_refused():
    result = CliRunner().invoke(check.command, ["Catch", "--steps", "7"])
    assert result.exit_code == 2 and "x>=8" in result.output


@pytest.mark.long
def test_an_algorithm_is_checked(capsys):
    code, err = told(capsys, "check", "tests.helpers.reinforce:untold")
    assert code == 2 and "has no annotation of its config" in err and err.count("\n") == 1
    result = CliRunner().invoke(cli, ["check", "a2c", "--actions", "discrete"], catch_exceptions=False)
    assert "a2c: " in result.output.splitlines()[0] and "checks passed" in result.output


def test_parameters_of_no_environment(capsys):
    code, err = told(capsys, "check", "ppo", "--env.gravity", "12")
    assert code == 2 and "--env.gravity is for an environment, and ppo is an algorithm" in err
    code, err = told(capsys, "check", "CartPole-v1", "--env.gravitation", "12")
    assert code == 2 and "did you mean 'gravity'" in err
