"""`purerl train ppo ENV --objective NAME`."""

import dataclasses
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

import purerl
from purerl import registry
from purerl.algos.lpg import lpg
from purerl.algos.ppo import PPOConfig, ppo
from purerl.catalog.objectives import OBJECTIVES
from purerl.errors import InputError
from purerl.extensions.objectives.extension import EXTENSION, ObjectiveOptions
from purerl.functional.drifts import DPO
from purerl.functional.objectives import Drifting
from purerl.run import export, opening
from purerl.run.plan import made
from purerl.settings import objective_file, ranges
from purerl.settings.options import SearchOptions
from purerl.settings.runs import settings
from purerl.sweeps.plan import dump_sweep, make_sweep_plan, saved_plan
from purerl.sweeps.result import Curves, SweepResult

CONFIG = PPOConfig(num_envs=4, rollout_length=8, num_minibatches=2, hidden_sizes=(8,))


def test_an_agent_learns_by_the_objective():
    """As if Python had put it into the algorithm; and "none" is the algorithm's own."""
    made = {}

    def make(algorithm, env, config):
        made["algorithm"] = algorithm

    env = purerl.make("Catch")
    EXTENSION.wrap(make, ObjectiveOptions(objective="dpo"))(ppo, env, CONFIG)
    found = made["algorithm"].keywords["objective"]
    assert jax.tree.all(jax.tree.map(np.allclose, found, Drifting(drift=DPO())))
    EXTENSION.wrap(make, ObjectiveOptions())(ppo, env, CONFIG)
    assert made["algorithm"] is ppo


@pytest.mark.parametrize(
    ("algorithm", "name", "why"),
    [
        ("ppo", "dpoo", "did you mean 'dpo'"),
        ("ppo", "zoo/nothing", "unknown objective of the zoo 'zoo/nothing'|unknown objective of the zoo 'nothing'"),
        ("ppo", "lpg", "objective 'lpg' is the rule of lpg; ppo has no rule"),
        ("lpg", "disco", "objective 'disco' is the rule of disco; lpg learns by a rule of its own"),
        ("dqn", "dpo", "objective 'dpo' is the objective of ppo; dqn has no objective"),
        ("ppo-penalty", "dpo", "objective 'dpo' is the objective of ppo; ppo-penalty has no objective"),
        ("disco", "lpg", "objective 'lpg' is the rule of lpg; disco learns by a rule of its own"),
        ("lpg", "open", "lpg learns by an evolved rule and has none: .* is the optimizer of ppo; give .* zoo/lpg"),
    ],
)
def test_what_is_not_a_part_of_the_algorithm_is_refused(algorithm, name, why):
    with pytest.raises(InputError, match=why):
        purerl.make_trainer(algorithm, "Catch", extensions={"objectives": ObjectiveOptions(objective=name)})


@pytest.mark.parametrize("algorithm", ["lpg", lpg])
def test_an_algorithm_that_needs_a_rule_says_so(algorithm):
    with pytest.raises(InputError, match="evolved rule and has none: give --objective, such as zoo/lpg"):
        purerl.train(algorithm, "Catch", display="none", total_timesteps=64)


@pytest.mark.parametrize(
    ("algorithm", "groups", "why"),
    [
        ("lpg", {}, "groups cannot be combined with --objective"),
        ("ppo", {"red": {"algorithm": "lpg"}}, "the settings of red cannot give one"),
    ],
)
def test_no_group_learns_by_a_random_rule(algorithm, groups, why):
    with pytest.raises(InputError, match=f"lpg learns by an evolved rule and has none: {why}"):
        purerl.train(algorithm, "CoinGame", display="none", total_timesteps=64, groups=groups)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"objective": "dpo", "clip_epsilon": 0.3},
            "objective 'dpo' replaces clip_epsilon, which would have no effect",
        ),
        ({"objective": "zoo/open", "learning_rate": 0.1}, "'zoo/open' replaces learning_rate"),
        ({"objective": "actor-critic", "self_tune": ("value_coefficient",)}, "replaces value_coefficient"),
    ],
)
def test_settings_without_effect_are_refused(given, why):
    with pytest.raises(InputError, match=why):
        made(settings("ppo", "Catch", given))


def test_each_part_of_ppo_replaces_a_setting():
    assert all(entry.unused for entry in OBJECTIVES.values() if entry.algorithm == "ppo")


@pytest.mark.long
@pytest.mark.parametrize("name", ["dpo", "actor-critic", "zoo/open"])
def test_no_setting_that_is_refused_has_an_effect(name):
    """And each other one has, over an update of two epochs."""
    entry, objective = objective_file.load(name)
    config, env = dataclasses.replace(CONFIG, learning_rate=0.1, num_epochs=2), purerl.make("Catch")

    @jax.jit
    def learned(config):
        trainer = purerl.make_trainer(partial(ppo, **{entry.argument: objective}), env, config)
        return trainer.step(trainer.init(jax.random.key(0)))[0].agent.params

    numbers = ("clip_epsilon", "value_coefficient", "entropy_coefficient", "learning_rate", "max_grad_norm")
    unchanged = learned(config)
    same = lambda change: jax.tree.all(jax.tree.map(np.array_equal, unchanged, learned(change)))
    idle = {name for name in numbers if same(dataclasses.replace(config, **{name: 0.003}))}
    assert idle == set(numbers) & set(entry.unused)


def test_settings_in_a_folder_name_the_file_that_it_keeps(tmp_path, monkeypatch):
    """A run's config.toml and a sweep's best.toml are used from anywhere, without the original file."""
    monkeypatch.chdir(tmp_path)
    small = {"num_envs": 4, "rollout_length": 8, "num_minibatches": 2, "hidden_sizes": (8,), "total_timesteps": 64}
    Path("mine.safetensors").write_bytes(objective_file.content("dpo", Drifting(drift=DPO(alpha=5.0))))
    run = settings("ppo", "Catch", small | {"objective": "mine.safetensors"})
    opening.new_run(run, Path("run"), "none").close()
    plan = make_sweep_plan(run, SearchOptions(method="grid", trials=1), {"learning_rate": [0.1]})
    Path("sweep").mkdir()
    kept = run.kept_files()
    for name, content in kept.items():
        Path("sweep", name).write_bytes(content)
    curves = Curves.empty(plan.env_steps(), 1)
    curves.trained[:], curves.episode_return[:] = plan.num_points, 1.0
    SweepResult(plan, curves, [[values] for values in plan.trials], Path("sweep")).save()
    Path("mine.safetensors").unlink()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    for file in ("../run/config.toml", "../sweep/best.toml"):
        found = settings(None, None, {}, {}, Path(file))
        objective = made(found).setup.options["objectives"].objective
        assert float(objective_file.load(objective).objective.drift.alpha) == 5.0, file
        assert found.kept_files() == kept, file
    assert (
        made(settings(None, None, {"objective": "dpo"}, {}, Path(file))).setup.options["objectives"].objective == "dpo"
    )


def test_a_sweep_keeps_the_objectives_that_it_searches(tmp_path):
    """Their files, which may have the same name, move before it is resumed; its best settings name the kept copy."""
    files = [tmp_path / name / "mine.safetensors" for name in ("a", "b")]
    for file, alpha in zip(files, (3.0, 5.0), strict=True):
        file.parent.mkdir()
        file.write_bytes(objective_file.content("dpo", Drifting(drift=DPO(alpha=alpha))))
    run, options = settings("ppo", "Catch", {"objective": "dpo"}), SearchOptions(method="grid", trials=9)
    plan = make_sweep_plan(run, options, {"objective": [*map(str, files), "zoo/lpo"], "learning_rate": [0.1, 0.2]})
    folder = tmp_path / "sweep"
    folder.mkdir()
    for name, content in {"sweep.toml": dump_sweep(plan).encode(), **plan.kept_files()}.items():
        (folder / name).write_bytes(content)
    for file in files:
        file.unlink()
    again = saved_plan(folder)
    load = lambda path: objective_file.load(path).objective
    objectives = [load(group.setup.options["objectives"].objective) for group in again.groups]
    assert [float(found.drift.alpha) for found in objectives[:2]] == [3.0, 5.0]
    assert jax.tree.all(jax.tree.map(np.array_equal, objectives[2], load("zoo/lpo")))
    assert again.trials == plan.trials
    curves = Curves.empty(again.env_steps(), 1)
    curves.trained[:], curves.episode_return[:] = again.num_points, np.arange(6.0)[:, None, None] == 2
    SweepResult(again, curves, [[values] for values in again.trials], folder).save()
    best = made(settings(None, None, {}, {}, folder / "best.toml")).setup.options["objectives"].objective
    assert float(load(best).drift.alpha) == 5.0


def test_a_sweep_over_objectives():
    options = SearchOptions(method="grid", trials=4)
    plan = lambda given, over: make_sweep_plan(settings("ppo", "Catch", given), options, dict([ranges.parse(over)]))
    assert [trial["objective"] for trial in plan({"objective": "dpo"}, "objective=dpo,zoo/lpo").trials] == [
        "dpo",
        "zoo/lpo",
    ]
    with pytest.raises(InputError, match="turns the extension objectives on: to search over it, also give --objective"):
        plan({}, "objective=dpo,zoo/lpo")
    with pytest.raises(InputError, match="objective 'dpo' replaces clip_epsilon"):
        plan({"objective": "dpo"}, "clip_epsilon=0.1,0.2")


def test_a_job_keeps_its_objective(tmp_path):
    """Its file may move: the run resumes bit-identically, and its agent acts, from the folder and from a file."""
    small = {"num_envs": 4, "rollout_length": 8, "num_minibatches": 2, "hidden_sizes": (8,), "eval_episodes": 4}
    given = {"learning_rate_schedule": "constant", "display": "none", "total_timesteps": 128} | small
    start, path = registry.load(OBJECTIVES["actor-critic"].start)(jax.random.key(0)), tmp_path / "mine.safetensors"
    path.write_bytes(objective_file.content("actor-critic", dataclasses.replace(start, value_coefficient=9.0)))
    train = partial(purerl.train, "ppo", "Catch", **given)
    own = train(out=tmp_path / "own")
    whole = train(out=tmp_path / "whole", objective=str(path))
    purerl.train("ppo", "Catch", **given | {"total_timesteps": 64}, out=tmp_path / "half", objective=str(path))
    path.write_bytes(objective_file.content("actor-critic", start))
    same = lambda a, b: jax.tree.all(jax.tree.map(np.array_equal, a.agent_of(0).params, b.agent_of(0).params))
    assert same(purerl.resume(tmp_path / "half", total_timesteps=128, display="none"), whole) and not same(own, whole)
    path.unlink()
    assert purerl.load_run(tmp_path / "half").evaluate(2).episode_return.shape == (1, 2)
    export.save(whole, tmp_path / "agent.safetensors")
    assert same(purerl.load_run(tmp_path / "agent.safetensors"), whole)
