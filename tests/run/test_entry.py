"""The Python API: it writes bit-identical files to the command's, and either can resume."""

import signal
from functools import partial

import jax
import numpy as np
import pytest

import purerl
from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.ppo import ppo
from purerl.envs.bsuite.catch import Catch
from purerl.errors import InputError
from purerl.run import run as life
from tests.helpers import reinforce
from tests.helpers.cli import told
from tests.helpers.runs import assert_same_run, rows
from tests.helpers.walk import Walk

SMALL = {"num_envs": 2, "rollout_length": 4, "total_timesteps": 80, "eval_episodes": 8, "evaluations": 2}
A2C = SMALL | {"hidden_sizes": (4,), "log_interval": 2, "seeds": 2}
OWN = "tests.helpers.reinforce:reinforce"


def flags(values):
    return [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.mark.long
def test_the_doors_lead_to_the_same_run(run_folder, tmp_path, capsys):
    """Names and objects in Python, and the settings of a run by `start`: the same rows, agents and files."""
    by_name = purerl.train("a2c", "Catch", out=tmp_path / "names", env={"rows": 5}, display="none", **A2C)
    assert capsys.readouterr().out == ""
    config = A2CConfig(num_envs=2, rollout_length=4, hidden_sizes=(4,), total_timesteps=80)
    options = {name: A2C[name] for name in ("log_interval", "eval_episodes", "evaluations", "seeds")}
    purerl.train(a2c, Catch(rows=5), config, out=tmp_path / "objects", display="plain", **options)
    assert "a2c on Catch, 2 seeds" in capsys.readouterr().out
    for folder in ("names", "objects"):
        assert_same_run(run_folder, tmp_path / folder)
        assert (tmp_path / folder / "config.toml").read_text() == (run_folder / "config.toml").read_text()
    saved = purerl.load_run(tmp_path / "names")
    assert jax.tree.all(jax.tree.map(np.array_equal, by_name.agent(1), saved.agent(1)))


@pytest.mark.long
def test_an_own_algorithm_has_a_folder_and_its_metrics(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = purerl.train(reinforce.reinforce, "CartPole-v1", step_size=0.02, **SMALL)
    folder = tmp_path / "runs" / "tests.helpers.reinforce-reinforce-CartPole-v1-1"
    assert all(np.isfinite(float(row["my_loss"])) for row in rows(folder))
    assert run.settings.config.step_size == 0.02 and run.settings.from_python == ()
    words = ["train", OWN, "CartPole-v1", "--step-size", "0.02", "--out", "command", "--plain", "--no-cache"]
    assert told(capsys, *words, *flags(SMALL))[0] == 0
    assert rows(folder) == rows(tmp_path / "command")
    code, err = told(capsys, "evaluate", "command", "--episodes", "4", "--no-cache")
    assert code == 2 and "--trust tests.helpers.reinforce" in err and err.count("\n") == 1
    assert (
        told(capsys, "evaluate", "command", "--episodes", "4", "--no-cache", "--trust", "tests.helpers.reinforce")[0]
        == 0
    )


def interrupted(monkeypatch, at):
    """Let a run receive Ctrl-C after `at` updates."""
    advance = life.Run.advance

    def step(self, *votes):
        advance(self, *votes)
        if self.update >= at:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(life.Run, "advance", step)


@pytest.mark.long
def test_what_came_from_objects_is_resumed_from_python(tmp_path, capsys, monkeypatch):
    whole = purerl.train(reinforce.flat, Walk(length=2.0), out=tmp_path / "whole", display="none", **SMALL)
    assert whole.settings.from_python == ("algorithm",)
    with monkeypatch.context() as patch:
        interrupted(patch, 4)
        with pytest.raises(KeyboardInterrupt):
            purerl.train(reinforce.flat, Walk(length=2.0), out=tmp_path / "cut", display="plain", **SMALL)
    assert "purerl.resume('" in capsys.readouterr().out
    code, err = told(
        capsys,
        "train",
        "--resume",
        str(tmp_path / "cut"),
        "--trust",
        "tests.helpers.walk",
        "--trust",
        "tests.helpers.reinforce",
    )
    assert (
        code == 2
        and "was made in Python from objects that no file can hold (algorithm)" in err
        and err.count("\n") == 1
    )
    with pytest.raises(InputError, match=r"add --trust tests\.helpers\.walk"):
        purerl.resume(tmp_path / "cut", algorithm=reinforce.flat)
    found = purerl.resume(tmp_path / "cut", algorithm=reinforce.flat, trust=True, display="none")
    assert jax.tree.all(jax.tree.map(np.array_equal, found.agent(), whole.agent()))
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")
    with pytest.raises(InputError, match=r"is for the algorithm tests\.helpers\.reinforce:reinforce, not a2c"):
        purerl.load_run(tmp_path / "cut", trust=True, algorithm=a2c)


@pytest.mark.long
def test_where_a_name_suffices_the_command_resumes(tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        interrupted(patch, 4)
        with pytest.raises(KeyboardInterrupt):
            purerl.train(reinforce.reinforce, Walk(length=2.0), out=tmp_path / "cut", display="plain", **SMALL)
    printed = capsys.readouterr().out
    assert (
        f"purerl train --resume {tmp_path / 'cut'} --trust tests.helpers.reinforce --trust tests.helpers.walk"
        in printed
    )
    trust = ("--trust", "tests.helpers.reinforce", "--trust", "tests.helpers.walk")
    assert told(capsys, "train", "--resume", str(tmp_path / "cut"), "--plain", "--no-cache", *trust)[0] == 0
    purerl.train(reinforce.reinforce, Walk(length=2.0), out=tmp_path / "whole", display="none", **SMALL)
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")


@pytest.mark.long_for("algorithm4-CartPole-v1-values4-did you mean 'gravity'")
@pytest.mark.parametrize(
    ("algorithm", "environment", "values", "message"),
    [
        ("pppo", "CartPole-v1", {}, "unknown algorithm 'pppo': did you mean 'ppo'"),
        ("ppo", "CartPol-v1", {}, "unknown environment 'CartPol-v1'"),
        ("ppo", "CartPole-v1", {"learning_rat": 1}, "unknown setting .*did you mean 'learning_rate'"),
        ("ppo", "CartPole-v1", {"display": "loud"}, "unknown display 'loud'"),
        (partial(ppo), "CartPole-v1", {"env": {"gravit": 1}}, "did you mean 'gravity'"),
    ],
)
def test_wrong_calls_write_nothing(tmp_path, algorithm, environment, values, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        purerl.train(algorithm, environment, **values)
    assert "\n" not in str(caught.value) and not (tmp_path / "runs").exists()


@pytest.mark.long
def test_a_failed_run_raises(tmp_path):
    with pytest.raises(RuntimeError, match="failed; the lines above"):
        purerl.train("ppo", "tests.run.test_run:Leaky", out=tmp_path / "run", env={"chance": 1.0}, display="none",
                     **SMALL, num_minibatches=2)  # fmt: skip
