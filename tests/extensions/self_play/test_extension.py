"""Self-play turned on and off."""

import pytest

from purerl.envs.games.coin_game import CoinGame
from purerl.extensions.self_play.extension import EXTENSION, SelfPlayOptions
from purerl.run.plan import made
from purerl.settings.runs import settings


def test_off_it_leaves_the_trainer_as_it_is():
    make = EXTENSION.wrap(lambda *pieces: pieces, SelfPlayOptions())
    assert make("algorithm", "env", "config") == ("algorithm", "env", "config")


@pytest.mark.long_for("0-names0", "2-names1")
@pytest.mark.parametrize(("selves", "names"), [(0, ["groups"]), (2, ["self_play", "groups"])])
def test_which_extensions_a_run_uses(selves, names):
    run = settings("ppo", CoinGame(), {"self_play": selves, "num_envs": 8})
    assert [row.name for row in made(run).extensions] == names
