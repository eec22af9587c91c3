"""What searches share: trials' values, and when a checkpoint is due."""

import pytest

from purerl import Uniform
from purerl.algos.a2c import A2CConfig
from purerl.settings.options import RunOptions
from purerl.settings.runs import Settings
from purerl.sweeps import search as searches
from purerl.sweeps.plan import SearchOptions, make_sweep_plan
from purerl.sweeps.sweep import make_search


def plan_of(method):
    config = A2CConfig(num_envs=2, rollout_length=4, hidden_sizes=(4,), total_timesteps=8 * 20)
    options = RunOptions(seeds=2, devices=1)
    run = Settings(algorithm="a2c", environment="Catch", options=options, config=config, parameters={})
    more = {"trials": 9, "points": 20, "generations": 4, "checkpoint_interval": 1000.0}
    return make_sweep_plan(run, SearchOptions(method=method, **more), {"discount": Uniform(0.9, 0.99)})


@pytest.mark.long_for("pbt")
@pytest.mark.parametrize("method", ["random", "halving", "pbt"])
def test_a_search_at_its_beginning(method):
    plan = plan_of(method)
    search = make_search(plan)
    assert search.share() == search.running() == 0 and search.compiles()
    assert search.values() == [[values, values] for values in plan.trials]
    assert not search.save_is_due()
    search.saved_time -= 1001
    assert search.save_is_due()


@pytest.mark.parametrize("method", ["halving", "pbt"])
def test_a_search_continues_with_its_past(method, monkeypatch, tmp_path):
    plan = plan_of(method)
    before, after = make_search(plan), make_search(plan)
    before.curves.trained[0] = 7
    past = {name: f"the {name} of before" for name in before._past()}
    tree = {before.names[0]: "agents", "curves": before.curves, before.names[1]: past}
    monkeypatch.setattr(searches, "load_latest", lambda *_: tree)
    monkeypatch.setattr(after, "_placed", lambda agents: agents)
    after.restore(tmp_path)
    assert after.bank == "agents" and after.curves.trained[0] == 7
    assert all(vars(after)[name] == value for name, value in past.items())
