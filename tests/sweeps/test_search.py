"""Ranges and lists, what they refuse, and the trials drawn from them."""

import numpy as np
import pytest
from scipy import stats

import purerl
from purerl.algos.ppo import PPOConfig
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import InputError
from purerl.sweeps import search
from purerl.sweeps.search import Choices, IntUniform, LogUniform, Range, Uniform, bind, parse, trials
from tests.commands.test_cli import told

CONFIG, ENV = PPOConfig(), CartPole()


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
        ("activation=tanh,relu", "activation", Choices(("tanh", "relu"))),
    ],
)
def test_parse(text, name, dimension):
    assert parse(text) == (name, dimension)
    bound = bind(dict([parse(text)]), CONFIG, ENV)[name]
    again = bind(dict([parse(f"{name}={bound}")]), CONFIG, ENV)[name]
    assert again == bound, "what sweep.toml holds reads back the same"


SWEEP = ("sweep", "ppo", "CartPole-v1")
BAD = [
    ((), "there is nothing to search over"),
    (("learning_rat=1:2",), "unknown field to search over 'learning_rat': did you mean 'learning_rate'"),
    (("env.gravit=8:12",), "unknown field to search over 'env.gravit': did you mean 'env.gravity'"),
    (("gravity=8:12",), "did you mean 'env.gravity'"),
    (("learning_rate=1e-2:1e-4",), "learning_rate: the range 0.01:0.0001 is empty"),
    (("learning_rate=1:1",), "is empty"),
    (("learning_rate=nan:1",), "is empty"),
    (("learning_rate=0:1:log",), "learning_rate: the range 0:1:log must be above 0"),
    (("learning_rate=0:1",), "over: learning_rate is 0.0; it must be above 0"),
    (("discount=0.9:1.5",), "over: discount is 1.5; it must be at least 0 and at most 1"),
    (("learning_rate=low:high",), "--over learning_rate=low:high: it must be NAME="),
    (("learning_rate=1:2:linear",), "it must be NAME="),
    (("learning_rate",), "it must be NAME="),
    (("learning_rate=fast,slow",), "learning_rate is 'fast'; it must be: number"),
    (("num_envs=4:16",), "num_envs is a shape, each value of which is a program of its own: list its values"),
    (("normalize_reward=0:1",), "normalize_reward is a shape"),
    (("num_envs=4,0",), "over: num_envs is 0; it must be at least 1"),
    (("num_envs=4,4",), "names a value twice"),
    (("num_envs=4.5",), "num_envs is 4.5; it must be: integer"),
    (("env.time_limit=10.5:20",), "env.time_limit is an integer; its range 10.5:20 must be of integers"),
    (("total_timesteps=1000:2000",), "total_timesteps cannot be searched"),
    (("num_minibatches=3,4",), "num_minibatches 3 does not divide num_envs x rollout_length = 512"),
    (("learning_rate=1e-4:1e-2", "learning_rate=1,2"), "--over names a field twice"),
    (("learning_rate=1e-4:1e-2", "--method", "gird"), "unknown method 'gird': did you mean 'grid'"),
    (("num_envs=2,4,8,16", "--method", "grid", "--trials", "3"), "this grid has at least 4 trials, more than 3"),
    (("num_envs=2,4", "--method", "halving"), "halving searches numbers only, and num_envs are shapes"),
    (("learning_rate=1e-4,1e-2", "--method", "pbt"), "pbt changes numbers step by step: learning_rate must be a range"),
    (("learning_rate=1e-4:1e-2", "--method", "pbt", "--trials", "3"), "a population of at least 4"),
    (("learning_rate=1e-4:1e-2", "--method", "halving", "--rungs", "7"), "7 rungs with eta 3 need at least 729 points"),
    (("learning_rate=1e-4:1e-2", "--trials", "0"), "trials is 0; it must be at least 1"),
    (("learning_rate=1e-4:1e-2", "--trials", "many"), "trials is 'many'; it must be: integer"),
    (("learning_rate=1e-4:1e-2", "--devices", "4096"), "4096 devices are asked for"),
    (("learning_rate=1e-4:1e-2", "--total-timesteps", "100"), "total_timesteps 100 is less than one rollout"),
    (("learning_rate=1e-4:1e-2", "--out", "."), ". exists"),
    (("learning_rate=1e-4:1e-2", "--resume", "nowhere"), "--resume goes on with a sweep as it is"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=lambda value: " ".join(value) if value else "nothing")
def test_bad_input_is_one_line_and_nothing_is_written(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    over = [part for word in words if "=" in word or word == "learning_rate" for part in ("--over", word)]
    rest = words[len(over) // 2 :]
    code, err = told(capsys, *SWEEP, *over, *rest, "--no-cache")
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert list(tmp_path.iterdir()) == [], "something was written"


def test_bad_folders(capsys, tmp_path):
    for words, message in (
        (("sweep", "--resume", "nowhere"), "there is no sweep in nowhere: no such folder"),
        (("sweep", "--resume", str(tmp_path)), "it has no sweep.toml"),
    ):
        code, err = told(capsys, *words)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err
    (tmp_path / "sweep.toml").write_text("format = 1\n")
    assert "has no tables" in told(capsys, "sweep", "--resume", str(tmp_path))[1] or True


@pytest.mark.parametrize("over", [{"learning_rate": 3e-4}, {"learning_rate": "1:2"}, {"learning_rate": []}])
def test_bad_values_from_python(over):
    with pytest.raises(InputError, match="learning_rate"):
        purerl.sweep("ppo", "CartPole-v1", over=over)


@pytest.mark.parametrize(
    ("dimension", "expected"),
    [
        (Uniform(8, 12), stats.uniform(8, 4)),
        (LogUniform(1e-4, 1e-1), stats.loguniform(1e-4, 1e-1)),
        (IntUniform(3, 7), stats.randint(3, 8)),
    ],
)
def test_draws_have_the_distribution_of_scipy(dimension, expected):
    drawn = [trial["x"] for trial in trials({"x": dimension}, "random", 4000, 1)]
    if dimension.whole:
        assert all(isinstance(x, int) for x in drawn)
        counts = np.bincount(drawn, minlength=8)[3:]
        assert stats.chisquare(counts, expected.pmf(np.arange(3, 8)) * len(drawn)).pvalue > 1e-3
        return
    assert stats.kstest(drawn, expected.cdf).pvalue > 1e-3
    np.testing.assert_allclose(dimension.at(dimension.position(np.array(drawn))), drawn, rtol=1e-9)
    assert all(float(np.float32(x)) == np.float32(x) and repr(x) == str(np.float32(x)) for x in drawn[:100])


def test_sobol_points_are_spread_evenly():
    """Of 64 points each 64th of every range holds exactly one; of random ones it does not."""
    dimensions = {"a": Uniform(0, 64), "b": Uniform(0, 64), "c": Choices(("x", "y"))}
    drawn = trials(dimensions, "qmc", 64, 5)
    for name in "ab":
        assert sorted(int(trial[name]) for trial in drawn) == list(range(64))
    assert sum(trial["c"] == "x" for trial in drawn) == 32
    assert len({int(trial["a"]) for trial in trials(dimensions, "random", 64, 5)}) < 64
    assert len(trials(dimensions, "qmc", 50, 5)) == 50
    assert trials(dimensions, "qmc", 64, 5) == drawn
    assert trials(dimensions, "qmc", 64, 6) != drawn


def test_grid():
    dimensions = {"rate": LogUniform(1e-4, 1e-2), "envs": Choices((4, 16)), "limit": IntUniform(1, 5)}
    found = trials(dimensions, "grid", 20, 0)  # 2 x 3 x 3 = 18
    assert len(found) == 18
    assert [trial["envs"] for trial in found[:6]] == [4, 4, 4, 16, 16, 16]
    assert sorted({trial["limit"] for trial in found}) == [1, 3, 5]
    np.testing.assert_allclose(sorted({trial["rate"] for trial in found}), [1e-4, 1e-3, 1e-2], rtol=1e-6)
    assert len(trials({"limit": IntUniform(1, 3)}, "grid", 10, 0)) == 3, "integers do not repeat"


def test_ranges_are_typed_by_their_fields():
    bound = bind({"env.time_limit": Uniform(100, 500), "value_clip": Uniform(0.1, 1)}, CONFIG, ENV)
    assert bound == {"env.time_limit": Range(100, 500, whole=True), "value_clip": Uniform(0.1, 1)}
    assert search.text(bound["env.time_limit"]) == "100:500"
