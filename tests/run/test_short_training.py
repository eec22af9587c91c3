"""A training without a folder."""

import os

import gymnasium
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.run import short_training
from purerl.settings.runs import settings

SMALL = {"num_envs": 2, "rollout_length": 8, "hidden_sizes": (4,), "total_timesteps": 64}


@pytest.mark.long
@pytest.mark.parametrize("name", ["Catch", "CoinGame", "gymnasium/CartPole-v1"])
def test_it_trains_and_writes_nothing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short_training.train(settings("a2c", name, SMALL))
    assert not os.listdir(tmp_path)


@pytest.mark.long
def test_what_is_not_finite_is_told():
    class Broken(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)

        def reset(self, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.zeros(1, np.float32), float("nan"), False, False, {}

    gymnasium.register("PaysNothingFinite-v0", Broken)
    name = "gymnasium/PaysNothingFinite-v0"
    with pytest.raises(FloatingPointError, match=r"^the metric \w+ is not finite"):
        short_training.train(settings("a2c", name, SMALL))


@pytest.mark.long
def test_a_run_that_is_not_possible():
    with pytest.raises(InputError, match="td3 needs continuous"):
        short_training.train(settings("td3", "Catch", {}))
