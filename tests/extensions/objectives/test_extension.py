"""`purerl train ppo ENV --objective NAME`."""

import jax
import numpy as np
import pytest

import purerl
from purerl.algos.ppo import PPOConfig, ppo
from purerl.errors import InputError
from purerl.extensions.objectives.extension import EXTENSION, ObjectiveOptions
from purerl.functional.drifts import DPO
from purerl.functional.objectives import Drifting

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
        ("dqn", "dpo", "objective 'dpo' is the objective of ppo; dqn has no objective"),
    ],
)
def test_what_is_not_a_part_of_the_algorithm_is_refused(algorithm, name, why):
    with pytest.raises(InputError, match=why):
        purerl.make_trainer(algorithm, "Catch", extensions={"objectives": ObjectiveOptions(objective=name)})
