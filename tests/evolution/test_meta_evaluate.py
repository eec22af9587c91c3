"""Comparing a learned objective with its rivals: the numbers by hand, and everything on tiny training runs."""

import dataclasses

import jax
import numpy as np
import pytest

import purerl
from purerl.algos.lpg import LPGConfig, lpg
from purerl.algos.ppo import PPOConfig, ppo
from purerl.errors import InputError
from purerl.evolution.evolve import Evolved
from purerl.evolution.inner_loop import Plug, Task
from purerl.evolution.meta_evaluate import MetaEvaluation, _like, _rows, improvement, meta_evaluate
from purerl.evolution.plan import EvolvePlan, choose_mesh
from purerl.evolution.strategies import OpenES
from purerl.functional.drifts import DPO
from purerl.functional.objectives import Drifting
from purerl.functional.update_rules import LPG
from purerl.settings.options import EvolveOptions

CONFIG = PPOConfig(
    num_envs=4, rollout_length=16, num_minibatches=2, num_epochs=1, hidden_sizes=(8,), learning_rate=0.01
)


def evolved(argument="objective", candidate=None):
    candidate = Drifting(drift=DPO()) if candidate is None else candidate
    task = Task("CartPole-v1", purerl.make("CartPole-v1"), CONFIG, 256)
    options = EvolveOptions(population=2, generations=2)
    learner, strategy = Plug(ppo, argument), OpenES(population=2)
    plan = EvolvePlan(
        name="dpo",
        options=options,
        candidate=candidate,
        learner=learner,
        tasks=(task,),
        strategy=strategy,
        text="",
        mesh=choose_mesh(options),
        algorithm="ppo",
        from_python=True,
    )
    return Evolved(candidate, candidate, [(0, candidate)], {}, plan, 2)


@pytest.mark.long
def test_improvement_by_hand():
    ours, theirs = np.array([3.0, 1.0, np.nan]), np.array([2.0, 1.0])
    center, (low, high) = improvement([ours], [theirs])
    np.testing.assert_allclose(center, (1 + 1 + 0 + 0.5 + 0 + 0) / 6, rtol=1e-6)
    assert 0 <= low <= center <= high <= 1
    both, _ = improvement([ours, np.ones(3)], [theirs, np.zeros(2)])
    np.testing.assert_allclose(both, (center + 1) / 2, rtol=1e-6)


@pytest.mark.long
def test_rows_and_table():
    scores = {
        "A": {"learned": np.array([2.0, 3.0, 4.0, 5.0]), "PPO": np.array([1.0, 1.5, 1.0, 1.2])},
        "B": {"learned": np.array([0.0, 1.0, 0.0, 1.0]), "PPO": np.array([0.0, 1.0, 1.0, 0.0])},
        "C": {"learned": np.array([0.0, 1.0, 0.0, 1.0]), "PPO": np.array([2.0, 2.0, 2.0, np.nan])},
    }
    rows = {(row.task, row.method): row for row in _rows(scores, {"A"})}
    assert rows["A", "PPO"].improvement == 1.0 and not rows["A", "PPO"].held_out
    assert rows["B", "PPO"].improvement == 0.5 and rows["B", "PPO"].held_out
    np.testing.assert_allclose(rows["all held-out tasks", "PPO"].improvement, (0.5 + 0.25) / 2)
    np.testing.assert_allclose(rows["A", "learned"].iqm, 3.5)
    np.testing.assert_allclose(rows["C", "PPO"].iqm, 2.0)
    text = MetaEvaluation(scores, list(rows.values()), {}).text()
    assert "B (held out)" in text and "1.00  (1.00 .. 1.00)" in text


def test_a_held_out_task_takes_the_config_and_the_lifetime_of_the_first():
    plan = evolved().plan
    held = _like(plan.tasks[0], "Catch", plan)
    assert held.name == "Catch" and held.total_timesteps == 256
    assert held.config == dataclasses.replace(CONFIG, total_timesteps=256)


def test_what_is_refused():
    with pytest.raises(InputError, match=r"actions of one kind: CartPole-v1 \(Discrete\), Pendulum-v1 \(Box\)"):
        meta_evaluate([evolved()], ["Pendulum-v1"], seeds=2, tuning=0)
    other = evolved()._replace(plan=evolved().plan._replace(name="kl"))
    with pytest.raises(InputError, match="the runs evolved different objectives: dpo, kl"):
        meta_evaluate([evolved(), other], seeds=2)
    with pytest.raises(InputError, match="compares parts of purerl's algorithms; dpo belongs to none of them"):
        meta_evaluate([evolved()._replace(plan=evolved().plan._replace(algorithm=""))])


@pytest.mark.long
def test_a_rule_is_compared_with_its_start():
    """Also on a held-out task; an unchanged rule equals its start."""
    rule = LPG.create(jax.random.key(0), 3, 4)
    config = LPGConfig(num_envs=2, rollout_length=9, hidden_sizes=(4,))
    task = Task("Catch", purerl.make("Catch"), config, 90)
    plan = evolved().plan._replace(algorithm="lpg", candidate=rule, learner=Plug(lpg, "rule"), tasks=(task,))
    found = meta_evaluate([Evolved(rule, rule, [(0, rule)], {}, plan, 2)], ["CartPole-v1"], seeds=2)
    assert not found.tuned and set(found.scores) == {"Catch", "CartPole-v1"}
    for by_method in found.scores.values():
        np.testing.assert_array_equal(by_method["learned"], by_method["start"])


@pytest.mark.slow
def test_the_whole(capsys):
    """Unchanged DPO equals DPO, with the same agents; PPO is tuned with as many training runs."""
    found = meta_evaluate([evolved(), evolved()], ["Catch"], seeds=3, tuning=2.0)
    assert found.tuned["training_runs"] == 8 and "tuning PPO on CartPole-v1" in capsys.readouterr().out
    for own in found.scores.values():
        np.testing.assert_allclose(own["learned"], np.tile(own["DPO"], 2), rtol=1e-4)
        assert own["tuned PPO"].shape == own["PPO"].shape == (3,)
