"""`purerl sweep`: bad input is one line and code 2."""

import pytest

from tests.helpers.cli import told

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
    (("num_envs=4:16",), "num_envs is a shape, and each of its values compiles a program: list its values"),
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
    (("learning_rate=1e-4:1e-2", "--devices", "1024"), "1024 devices are requested"),
    (("learning_rate=1e-4:1e-2", "--total-timesteps", "100"), "total_timesteps 100 is less than one rollout"),
    (("learning_rate=1e-4:1e-2", "--out", "."), ". exists"),
    (("learning_rate=1e-4:1e-2", "--resume", "nowhere"), "--resume continues with the settings in the folder"),
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


@pytest.mark.long
def test_the_best_of_a_complete_sweep_is_trained_with_other_seeds(tmp_path, capsys):
    small = [*("--trials", "2", "--seeds", "1", "--points", "2", "--total-timesteps", "1024", "--plain")]
    folder = tmp_path / "sweep"
    assert told(capsys, *SWEEP, "--over", "discount=0.9:0.99", *small, "--out", str(folder), "--no-cache")[0] == 0
    assert "--fresh-seeds N retrains it" in (folder / "best.toml").read_text()
    assert told(capsys, "sweep", "--resume", str(folder), "--fresh-seeds", "2", "--plain")[0] == 0
    assert "# with 2 other seeds: mean return" in (folder / "best.toml").read_text()
    assert "fresh_seeds is -1" in told(capsys, "sweep", "--resume", str(folder), "--fresh-seeds", "-1")[1]
