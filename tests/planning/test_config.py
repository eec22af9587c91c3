"""Settings of MCTS."""

import pytest

from purerl import InputError
from purerl.fields import validate
from purerl.planning.config import SearchConfig


def test_samples_per_gradient():
    config = SearchConfig(num_envs=8, rollout_length=6, num_minibatches=4)
    assert config.samples_per_gradient == 12


def test_the_kinds_of_search():
    validate(SearchConfig(search="puct"), "mcts")
    with pytest.raises(InputError, match="search is 'minimax'; allowed: gumbel, puct"):
        validate(SearchConfig(search="minimax"), "mcts")
