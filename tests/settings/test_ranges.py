"""Ranges and lists, and what they refuse."""

import math

import pytest

import purerl
from purerl.algos.disco import DiscoConfig
from purerl.algos.ppo import PPOConfig
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import InputError
from purerl.loop.extension import Setup
from purerl.settings.ranges import Choices, IntUniform, LogUniform, Range, Uniform, bind, parse
from purerl.settings.values import to_text

SETUP = Setup(config=PPOConfig(), env=CartPole(), options={})


@pytest.mark.parametrize(
    ("text", "name", "dimension"),
    [
        ("learning_rate=1e-4:1e-2:log", "learning_rate", LogUniform(1e-4, 1e-2)),
        ("learning-rate=1e-4:0.5", "learning_rate", Uniform(1e-4, 0.5)),
        ("env.gravity=8:12", "env.gravity", Uniform(8, 12)),
        ("num_envs=4,16", "num_envs", Choices((4, 16))),
        ("num_envs=4", "num_envs", Choices((4,))),
        ("value_clip=none,0.2", "value_clip", Choices((None, 0.2))),
        ("hidden_sizes=64,64/256", "hidden_sizes", Choices(((64, 64), 256))),
        ("hidden_sizes=64,64/", "hidden_sizes", Choices(((64, 64),))),
        ("activation=tanh,relu", "activation", Choices(("tanh", "relu"))),
    ],
)
def test_parse(text, name, dimension):
    assert parse(text) == (name, dimension)
    bound = bind(dict([parse(text)]), SETUP)[name]
    again = bind(dict([parse(f"{name}={bound}")]), SETUP)[name]
    assert again == bound, "what sweep.toml holds reads back the same"


@pytest.mark.parametrize("text", ["zoo/a,b/c.npz,random", "b/c.npz"])
def test_paths_are_not_split(text):
    bound = bind(dict([parse(f"weights={text}")]), SETUP._replace(config=DiscoConfig()))["weights"]
    assert bound.values == tuple(text.split(",")) and str(bound) == text


@pytest.mark.parametrize("over", [{"learning_rate": 3e-4}, {"learning_rate": "1:2"}, {"learning_rate": []}])
def test_bad_values_from_python(over):
    with pytest.raises(InputError, match="learning_rate"):
        purerl.sweep("ppo", "CartPole-v1", over=over)


@pytest.mark.long
def test_ranges_are_typed_by_their_fields():
    bound = bind({"env.time_limit": Uniform(100, 500), "value_clip": Uniform(0.1, 1)}, SETUP)
    assert bound == {"env.time_limit": Range(100, 500, whole=True), "value_clip": Uniform(0.1, 1)}
    assert to_text(bound["env.time_limit"]) == "100:500"


def test_a_logarithmic_range_is_uniform_in_the_logarithm():
    assert LogUniform(1e-4, 1e-2).at(0.5) == pytest.approx(1e-3)
    assert LogUniform(1e-4, 1e-2).edges == pytest.approx((math.log(1e-4), math.log(1e-2)))


def test_the_ends_of_whole_numbers_are_as_likely_as_the_others():
    assert IntUniform(1, 5).edges == (0.5, 5.5) and Uniform(1.0, 5.0).edges == (1.0, 5.0)
