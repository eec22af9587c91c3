"""When a run plans in the environment."""

import pytest

from purerl.algos.alphazero import AlphaZeroConfig
from purerl.algos.muzero import MuZeroConfig
from purerl.algos.spo import SPOConfig
from purerl.envs.bsuite.catch import Catch
from purerl.extensions.planning.extension import EXTENSION


@pytest.mark.long
def test_who_plans():
    assert EXTENSION.needed(Catch(), AlphaZeroConfig()) == "alphazero plans in the environment itself"
    assert EXTENSION.needed(Catch(), SPOConfig()) == "spo plans in the environment itself"
    assert EXTENSION.needed(Catch(), MuZeroConfig()) == "", "it plans in a model that it learns"
    assert (AlphaZeroConfig.plans, SPOConfig.plans, MuZeroConfig.plans) == (2, 1, 0)
