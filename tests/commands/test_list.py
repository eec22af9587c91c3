"""`purerl list`: everything that is registered has its line."""

from click.testing import CliRunner

from purerl import registry, zoo
from purerl.catalog.algorithms import ALGORITHMS
from purerl.catalog.environments import ENVIRONMENTS, SUITES
from purerl.catalog.objectives import OBJECTIVES
from purerl.commands.cli import cli
from purerl.settings import runs


def lines(*words):
    result = CliRunner().invoke(cli, ["list", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output.splitlines()


def test_environments_and_suites():
    found = lines("envs")
    assert [line.split()[0] for line in found[: len(ENVIRONMENTS)]] == sorted(ENVIRONMENTS)
    lines_of = {line.split()[0]: " ".join(line.split()[1:]) for line in found}
    assert lines_of["CartPole-v1"] == "1 player; float32[4] -> Discrete(2); Reward 1 per step"
    assert lines_of["CoinGame"].startswith(
        "2 players; blue float32[36], red float32[36] -> blue Discrete(5), red Discrete(5);"
    )
    assert [line.split("/")[0] for line in found[len(ENVIRONMENTS) :]] == sorted(SUITES)
    for line, suite in zip(found[len(ENVIRONMENTS) :], sorted(SUITES), strict=True):
        assert ("pip install" in line) != registry.installed(suite)


def test_a_suites_environments():
    assert "gymnax/CartPole-v1" in lines("envs", "--suite", "gymnax")


def test_algorithms_with_their_papers():
    found = lines("algos")
    assert [line.split()[0] for line in found] == sorted(ALGORITHMS)
    assert any("Schulman" in line for line in found if line.startswith("ppo "))


def test_objectives():
    published = [f"zoo/{name}" for name in zoo.objectives()]
    assert [line.split()[0] for line in lines("objectives")] == [*OBJECTIVES, *published]
    assert "zoo/lpg  published: purerl train lpg ENV --objective zoo/lpg" in lines("objectives")


def test_configs():
    found = [tuple(line.split()) for line in lines("configs")]
    assert found == list(runs.names()) and ("ppo", "CartPole-v1") in found


def test_agents(monkeypatch, tmp_path):
    found = lines("agents")
    assert [line.split()[0] for line in found] == [f"zoo/{name}" for name in zoo.names()]
    monkeypatch.setattr(zoo, "CLONE", tmp_path)
    assert lines("agents")[-1] == f"{len(found) - len(zoo.here())} more are in the zoo/ folder of purerl's repository"
