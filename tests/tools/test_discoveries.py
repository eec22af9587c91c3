"""Objectives are evolved, compared with PPO on every task, and published: the whole tool at a small size."""

import json
import subprocess

import jax
import numpy as np
import pytest

import purerl
from purerl import zoo
from purerl.algos.lpg import LPGConfig, lpg
from purerl.algos.ppo import PPOConfig
from purerl.evolution.evolve import load
from purerl.evolution.inner_loop import Plug
from purerl.functional.drifts import DPO
from purerl.functional.objectives import ActorCriticLoss, Clip
from purerl.functional.update_rules import LPG
from purerl.loop.train import make_train
from purerl.settings import objective_file

pytestmark = pytest.mark.publish
SMALL = {"num_envs": 4, "rollout_length": 9, "num_epochs": 1, "num_minibatches": 1, "learning_rate": 1e-2}


@pytest.fixture
def small(script, tmp_path, monkeypatch):
    """Make everything small, and return (the tool, the folder of results)."""
    monkeypatch.setattr(script, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(script, "CONFIG", {**SMALL, "network": "mlp", "hidden_sizes": (4,)})
    monkeypatch.setattr(script, "TRAINED", ("Catch",))
    monkeypatch.setattr(script, "LIFE", 72)
    monkeypatch.setattr(script, "TRIALS", 2)
    words = "--population 2 --generations 2"
    found = script.Discovery(objective="dpo", words=words, about="Two numbers.", config=script.CONFIG)
    monkeypatch.setattr(script, "DISCOVERIES", {"dpo": found})
    return script, tmp_path / "objectives"


def test_a_discovery_is_published_once(small, monkeypatch):
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
    tool.compare(found, out / "scores.json", tasks, seeds=2)
    table = json.loads((out / "scores.json").read_text())
    assert table["tuned_ppo"]["training_runs"] == 4 and list(table["scores"]) == list(tasks)
    monkeypatch.setattr(tool, "tune_ppo", None)
    monkeypatch.setattr(tool, "scores_of", lambda *_: np.full((1, 2), 7.0))
    monkeypatch.setattr(subprocess, "run", None)
    assert tool.evolve("dpo") == 0
    tool.compare(found | {"again": found["dpo"]}, out / "scores.json", tasks, seeds=2)
    after = json.loads((out / "scores.json").read_text())["scores"]
    assert after["Catch"].pop("again") == [7.0, 7.0] and after["Catch"] == table["scores"]["Catch"]
    page = tool.write_page(out, {"dpo": ("Two numbers.", "purerl evolve dpo")}, ("Catch",), {}).read_text()
    assert "| `zoo/dpo` |" in page and "2 generations, 4 training runs" in page and "closed form" in page.lower()


def test_the_rows_of_the_table_are_what_they_are_called(small):
    """PPO by its loss is PPO by its config, to rounding, and a trial of the tuning is the same with other numbers."""
    tool, _ = small
    rows = tool.rivals({"clip_epsilon": 0.1, "learning_rate": 0.02, "clips_value": False})
    assert isinstance(rows["PPO"].loss, ActorCriticLoss) and rows["tuned PPO"].loss.value_clip is None
    scores = tool.scores_of("Catch", 72, [rows["PPO"], tool.ppo_by(tool.whole_loss(Clip(), np.inf))], 2)
    keys = jax.random.split(jax.random.key(0x6F626A), 2)
    config = PPOConfig(**SMALL, network="mlp", hidden_sizes=(4,))
    own = [tool.score(make_train(tool.ppo, purerl.make("Catch"), config, 72)(key)[1], tool.KIND) for key in keys]
    np.testing.assert_allclose(scores[0], own, atol=1e-3)
    assert scores.shape == (2, 2)


def test_a_rule_stands_beside_losses(small):
    """A rule is not a loss of PPO: it trains by its own algorithm and config, from the same keys, in its own row."""
    tool, _ = small
    config = LPGConfig(num_envs=2, rollout_length=9, network="mlp", hidden_sizes=(4,))
    rule = tool.Method(Plug(lpg, "rule")(LPG.create(jax.random.key(0), units=4)), config)
    losses = tool.rivals({"clip_epsilon": 0.1, "learning_rate": 0.02, "clips_value": False})
    scores = tool.scores_of("Catch", 72, [losses["PPO"], rule, losses["DPO"]], 2)
    alone = tool.scores_of("Catch", 72, [rule], 2)
    key = jax.random.split(jax.random.key(0x6F626A), 2)[1]
    own = tool.score(make_train(rule.factory, purerl.make("Catch"), config, 72)(key)[1], tool.KIND)
    np.testing.assert_allclose(scores[1], alone[0])
    np.testing.assert_allclose(scores[1, 1], own, atol=1e-3)
    np.testing.assert_allclose(scores[[0, 2]], tool.scores_of("Catch", 72, [losses["PPO"], losses["DPO"]], 2))


def test_ppo_is_tuned_again_when_a_discovery_had_more_training_runs(small, monkeypatch):
    """The tuned PPO's scores are made again with its new settings, and no others."""
    tool, out = small
    path = out / "scores.json"
    out.mkdir()
    names = list(tool.rivals({"clip_epsilon": 0.1, "learning_rate": 0.02, "clips_value": True}))
    old = {"clip_epsilon": 0.1, "learning_rate": 0.02, "clips_value": True, "training_runs": 2}
    path.write_text(
        json.dumps({"tuned_ppo": old, "scores": {"Catch": {name: [1.0] for name in names}}, "cpu_seconds": 0})
    )
    assert tool.evolve("dpo") == 0
    found = {"dpo": load(tool.RUNS / "dpo")}
    monkeypatch.setattr(tool, "tune_ppo", lambda runs: old | {"training_runs": runs})
    monkeypatch.setattr(tool, "scores_of", lambda task, steps, chosen, seeds: np.full((len(chosen), 1), 7.0))
    tool.compare(found, path, {"Catch": 72}, seeds=1)
    after = json.loads(path.read_text())
    assert after["tuned_ppo"]["training_runs"] == 4
    assert {name for name, scores in after["scores"]["Catch"].items() if scores == [7.0]} == {"tuned PPO", "dpo"}
