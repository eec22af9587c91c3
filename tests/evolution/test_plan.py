"""The plan of an evolution, made from options."""

import jax
import pytest

from purerl.errors import InputError
from purerl.evolution.plan import make_plan
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
