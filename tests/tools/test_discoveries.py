"""Objectives are evolved, compared with PPO on every task, and published: the complete tool at a small size."""

import importlib
import json
import subprocess

import numpy as np
import pytest

from purerl import zoo
from purerl.commands import cli
from purerl.evolution import evolve as evolution
from purerl.evolution.evolve import load
from purerl.functional.drifts import DPO
from purerl.settings import objective_file

pytestmark = pytest.mark.publish
CONFIG = {
    "num_envs": 4,
    "rollout_length": 9,
    "num_epochs": 1,
    "num_minibatches": 1,
    "learning_rate": 1e-2,
    "network": "mlp",
    "hidden_sizes": (4,),
}


@pytest.fixture
def scores(script):
    """The tool that trains with every method."""
    return importlib.import_module("discovery_scores")


@pytest.fixture
def small(script, scores, tmp_path, monkeypatch):
    """Make everything small, and return (the tool, the folder of results)."""
    monkeypatch.setattr(script, "RUNS", tmp_path / "runs")
    for module in (script, scores):
        monkeypatch.setattr(module, "TRAINED", ("Catch",))
        monkeypatch.setattr(module, "LIFE", 72)
    monkeypatch.setattr(scores, "CONFIG", CONFIG)
    monkeypatch.setattr(scores, "TRIALS", 2)
    words = "--population 2 --generations 2"
    found = script.Discovery(objective="dpo", words=words, about="Two numbers.", config=CONFIG)
    monkeypatch.setattr(script, "DISCOVERIES", {"dpo": found})
    return script, tmp_path / "objectives"


def test_every_published_command_is_accepted(script, monkeypatch):
    """Its tasks have actions of one kind, and its settings exist."""
    begun = []
    monkeypatch.setattr(evolution, "start", lambda plan, *_: begun.append(plan.name) or 0)
    every = script.DISCOVERIES | script.ABLATIONS
    for name in every:
        with pytest.raises(SystemExit) as ended:
            cli.main(script.command(name))
        assert not ended.value.code, name
    assert begun == [found.objective for found in every.values()]


def test_a_discovery_is_published_once(small, scores, monkeypatch):
    """Nothing that is there is made again; a method that is new is added to the table."""
    tool, out = small
    shipped = zoo.objective_path("dpo").read_bytes()
    assert tool.evolve("dpo") == 0
    tool.publish("dpo", out)
    assert (out / "dpo" / "generations.csv").exists() and "A >= 0" in (out / "dpo" / "closed_form.txt").read_text()
    assert float((out / "dpo" / "cpu_seconds.txt").read_text()) > 0
    assert zoo.objective_path("dpo").read_bytes() == shipped, "results in another folder are not for the zoo"
    assert isinstance(objective_file.load(str(tool.RUNS / "dpo")).objective.drift, DPO)
    found, tasks = {"dpo": load(tool.RUNS / "dpo")}, {"Catch": 72, "DiscountingChain": 720}
    scores.compare(found, out / "scores.json", tasks, seeds=2)
    table = json.loads((out / "scores.json").read_text())
    assert table["tuned_ppo"]["training_runs"] == 4 and list(table["scores"]) == list(tasks)
    monkeypatch.setattr(scores, "tune_ppo", None)
    monkeypatch.setattr(scores, "scores_of", lambda *_: np.full((1, 2), 7.0))
    monkeypatch.setattr(subprocess, "run", None)
    assert tool.evolve("dpo") == 0
    scores.compare(found | {"again": found["dpo"]}, out / "scores.json", tasks, seeds=2)
    after = json.loads((out / "scores.json").read_text())["scores"]
    assert after["Catch"].pop("again") == [7.0, 7.0] and after["Catch"] == table["scores"]["Catch"]
    page = tool.write_page(out, {"dpo": ("Two numbers.", "purerl evolve dpo")}, ("Catch",), {}).read_text()
    assert "| `zoo/dpo` |" in page and "2 generations, 4 training runs" in page and "closed form" in page.lower()


def test_ppo_is_tuned_again_when_a_discovery_had_more_training_runs(small, scores, monkeypatch):
    """The tuned PPO's scores are made again with its new settings, and no others."""
    tool, out = small
    path = out / "scores.json"
    out.mkdir()
    names = list(scores.rivals({"clip_epsilon": 0.1, "learning_rate": 0.02, "clips_value": True}))
    old = {"clip_epsilon": 0.1, "learning_rate": 0.02, "clips_value": True, "training_runs": 2}
    path.write_text(
        json.dumps({"tuned_ppo": old, "scores": {"Catch": {name: [1.0] for name in names}}, "cpu_seconds": 0})
    )
    assert tool.evolve("dpo") == 0
    found = {"dpo": load(tool.RUNS / "dpo")}
    monkeypatch.setattr(scores, "tune_ppo", lambda runs: old | {"training_runs": runs})
    monkeypatch.setattr(scores, "scores_of", lambda task, steps, chosen, seeds: np.full((len(chosen), 1), 7.0))
    scores.compare(found, path, {"Catch": 72}, seeds=1)
    after = json.loads(path.read_text())
    assert after["tuned_ppo"]["training_runs"] == 4
    assert {name for name, scores in after["scores"]["Catch"].items() if scores == [7.0]} == {"tuned PPO", "dpo"}
