"""What levels cannot be combined with."""

import pytest

import purerl
from purerl.algos.alphazero import AlphaZeroConfig
from purerl.algos.ppo import PPOConfig
from purerl.envs.grid.maze import Maze
from purerl.errors import InputError
from purerl.extensions.levels.extension import EXTENSION
from purerl.extensions.levels.options import LevelOptions
from purerl.settings.extensions import wraps

PLR = {"levels": LevelOptions(levels="plr")}


@pytest.mark.parametrize(
    ("env", "config", "message"),
    [
        (
            purerl.make("CoinGame"),
            PPOConfig(),
            "levels cannot be .* groups: levels is plr, and CoinGame has groups",
        ),
        (Maze(), AlphaZeroConfig(), "levels cannot be .* with planning: levels is plr, and alphazero plans"),
    ],
)
def test_what_excludes_levels(env, config, message):
    with pytest.raises(InputError, match=message):
        wraps(env, config, PLR)


@pytest.mark.long
def test_without_levels_the_trainer_is_that_of_the_loop():
    made = []
    make = EXTENSION.wrap(lambda *pieces: made.append(pieces) or "trainer", LevelOptions())
    assert make("algorithm", "env", "config") == "trainer" and made == [("algorithm", "env", "config")]
    assert wraps(Maze(), PPOConfig()) == []
