"""The trainer of a probe has the extensions that the algorithm needs."""

import pytest

from purerl.algos.alphazero import AlphaZeroConfig, alphazero
from purerl.envs.bsuite.catch import Catch
from purerl.testing.trainers import make_trainer
from purerl.wrappers import Situations


@pytest.mark.long
def test_an_algorithm_that_plans_is_given_the_environment():
    trainer = make_trainer(alphazero, Catch(), AlphaZeroConfig(num_envs=2, num_simulations=2))
    assert isinstance(trainer.environment, Situations) and trainer.pure
