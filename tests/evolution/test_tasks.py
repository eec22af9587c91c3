"""Tasks by name, and what is sampled again for each training run."""

import jax
import numpy as np
import pytest

from purerl.envs.classic.cartpole import CartPole
from purerl.errors import InputError
from purerl.evolution.tasks import RedrawFields, make_task, share_parameters
from purerl.settings.ranges import Range


def test_integers_are_drawn_on_their_scale():
    redraw = RedrawFields({"time_limit": Range(10, 1000, log=True, whole=True)})
    drawn = [int(redraw(jax.random.key(i), CartPole()).time_limit) for i in range(200)]
    assert 70 < np.median(drawn) < 140 and min(drawn) >= 10 and max(drawn) <= 1000


def test_each_task_has_the_parameters_of_its_environment():
    shared = share_parameters(["CartPole-v1", "Catch"], {"gravity": 5.0, "rows": 7})
    assert shared == {"CartPole-v1": {"gravity": 5.0}, "Catch": {"rows": 7}}
    with pytest.raises(InputError, match="unknown parameter of CartPole-v1 and Catch 'gravitas'"):
        share_parameters(["CartPole-v1", "Catch"], {"gravitas": 5.0})


@pytest.mark.parametrize("flags", [{"groups": {"red": {"learning_rate": 0.1}}}, {"levels": "dr"}, {"keep_best": True}])
def test_settings_that_its_training_runs_do_not_use_are_refused(flags):
    (name,) = flags
    with pytest.raises(InputError, match=f"unknown setting of the task Catch '{name}'"):
        make_task("ppo", "Catch", flags, {})
