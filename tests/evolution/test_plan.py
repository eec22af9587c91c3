"""The plan of an evolution, made from options."""

import jax
import pytest

import purerl
from purerl.algos.lpg import LPGConfig, lpg
from purerl.errors import InputError
from purerl.evolution.inner_loop import Plug, Task
from purerl.evolution.plan import make_plan, python_plan
from purerl.functional.update_rules import LPG
from purerl.settings.options import EvolveOptions
from tests.helpers.evolutions import SMALL


@pytest.mark.long
def test_drawn_parameters_are_kept_in_the_folder():
    plan = make_plan("dpo", ["CartPole-v1"], EvolveOptions(population=4), SMALL, {"gravity": "5:15", "force": 8.0})
    assert 'gravity = "5.0:15.0"' in plan.text and "force = 8.0" in plan.text
    redraw = plan.tasks[0].redraw
    drawn = [float(redraw(jax.random.key(i), plan.tasks[0].env).gravity) for i in range(5)]
    assert all(5 <= x <= 15 for x in drawn) and len(set(drawn)) == 5


def test_a_wrong_range_is_told_of_the_task():
    with pytest.raises(InputError, match=r"task parameter env.gravity=5:heavy: it must be NAME=LOW:HIGH"):
        make_plan("dpo", ["CartPole-v1"], EvolveOptions(population=4), SMALL, {"gravity": "5:heavy"})


@pytest.mark.parametrize(("objective", "setting"), [("open", "learning_rate"), ("actor-critic", "value_coefficient")])
def test_a_setting_that_the_objective_replaces_is_refused(objective, setting):
    with pytest.raises(InputError, match=f"objective '{objective}' replaces {setting}, which would have no effect"):
        make_plan(objective, ["Catch"], EvolveOptions(population=4), {setting: 0.1})


def test_a_rule_from_python_belongs_to_its_algorithm():
    """Which `meta_evaluate` needs."""
    task = Task("Catch", purerl.make("Catch"), LPGConfig(num_envs=2, rollout_length=9), 90)
    rule = LPG.create(jax.random.key(0), 3, 4)
    assert python_plan(EvolveOptions(population=4), rule, Plug(lpg, "rule"), [task]).algorithm == "lpg"
