"""`purerl train ppo ENV --self-tune A,B`."""

import shutil

import numpy as np
import pytest
from click.testing import CliRunner

import purerl
from purerl.commands.cli import cli
from purerl.errors import InputError
from purerl.reporting.metrics_csv import read
from purerl.run import checkpoint

SMALL = [
    "--num-envs",
    "4",
    "--rollout-length",
    "8",
    "--num-minibatches",
    "2",
    "--num-epochs",
    "1",
    "--hidden-sizes",
    "8,",
]


def train(*words):
    return CliRunner().invoke(cli, ["train", *words, "--plain"])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("ppo", "Catch", "--self-tune", "gae_lamda"), "gae_lambda"),
        (("ppo", "Catch", "--self-tune", "num_envs"), "number that ppo can tune"),
        (("ppo", "Catch", "--self-tune", "entropy_coefficient", "--entropy-coefficient", "0"), "must start above 0"),
        (("ppo", "Catch", "--self-tune", "discount,discount"), "twice"),
        (("dqn", "Catch", "--self-tune", "discount"), "dqn has a replay"),
        (("vmpo", "Catch", "--self-tune", "discount"), "vmpo does not offer both"),
        (("ppo", "Maze", "--self-tune", "discount", "--levels", "dr"), "and self_tune is discount"),
        (("ppo", "Catch", "--self-tune-decay", "0.5"), "self_tune_decay is an option of self_tuning"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_one_line(words, why, tmp_path):
    result = train(*words, "--out", str(tmp_path / "run"))
    assert isinstance(result.exception, InputError) and why in str(result.exception)
    assert "\n" not in str(result.exception) and not (tmp_path / "run").exists()


@pytest.mark.suites
def test_a_host_environment_is_refused(tmp_path):
    pytest.importorskip("gymnasium")
    result = train("ppo", "gymnasium/CartPole-v1", "--self-tune", "discount", "--out", str(tmp_path / "run"))
    assert "self_tuning cannot be combined with host" in str(result.exception)


@pytest.mark.long
def test_a_run_resumes_to_the_same_bits_and_logs_its_numbers(tmp_path):
    """The numbers, Adam's state and the trace are part of the checkpoint, even for a recurrent policy."""
    more = [
        "--self-tune",
        "gae_lambda,entropy_coefficient",
        "--self-tune-decay",
        "0.9",
        "--rnn",
        "gru",
        "--rnn-size",
        "8",
    ]
    words = ["ppo", "Catch", *SMALL, *more, "--total-timesteps", "256", "--evaluations", "0", "--log-interval", "1"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    often = ("--checkpoint-interval", "0", "--keep-checkpoints", "9")
    assert train(*words, *often, "--out", str(whole)).exit_code == 0
    shutil.copytree(whole, cut)
    (cut / "summary.json").unlink()
    for step in checkpoint.steps(cut / "checkpoints")[2:]:
        shutil.rmtree(cut / "checkpoints" / f"{step:09d}")
    result = train("--resume", str(cut))
    assert result.exit_code == 0, result.output
    columns = [read(folder / "metrics.csv") for folder in (whole, cut)]
    for name in ("tuned_gae_lambda", "tuned_entropy_coefficient", "policy_loss"):
        np.testing.assert_array_equal(columns[0][name], columns[1][name])
    first, *_, last = columns[0]["tuned_gae_lambda"]
    assert abs(first - 0.95) < 1e-6 < abs(last - first)
    assert purerl.load_run(whole).evaluate(2).episode_return.shape == (1, 2)
    plain = ["ppo", "Catch", "--start", str(whole), "--total-timesteps", "32", "--evaluations", "0", *SMALL]
    assert train(*plain, "--out", str(tmp_path / "next")).exit_code == 0, "another run begins with the agent alone"
