"""When a run has groups of agents, and which settings they have."""

import pytest

from purerl.algos.alphazero import AlphaZeroConfig
from purerl.algos.ppo import PPOConfig
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.games.coin_game import CoinGame
from purerl.errors import InputError
from purerl.extensions.groups.extension import EXTENSION
from purerl.run.plan import made
from purerl.settings.runs import settings


def test_who_has_groups():
    assert EXTENSION.needed(CoinGame(), PPOConfig()) == "CoinGame has groups of agents"
    assert EXTENSION.needed(CoinGame(), AlphaZeroConfig()) == "" == EXTENSION.needed(CartPole(), PPOConfig())


def test_settings_of_a_group_need_a_group():
    with pytest.raises(InputError, match="CartPole-v1 has a single agent: settings of a group 'red' do not apply"):
        made(settings("ppo", "CartPole-v1", {"groups": {"red": {"learning_rate": 0.1}}}))
    with pytest.raises(InputError, match="one policy plays all groups here: give its settings to the run"):
        flags = {"groups": {"red": {"learning_rate": 0.1}}, "self_play": 2, "num_envs": 8}
        made(settings("ppo", "CoinGame", flags)).trainer()
