"""`purerl train`: killed at random moments and resumed, with bit-identical results."""

import os
import random
import signal
import subprocess
import time

import pytest

from tests.helpers.cli import command, purerl
from tests.helpers.runs import assert_same_run, rows

ENVIRONMENT = {
    "PPO": "ppo CartPole-v1 --num-envs 4 --rollout-length 32 --hidden-sizes 16,16 --num-minibatches 2",
    "DQN": "dqn CartPole-v1 --num-envs 4 --hidden-sizes 16,16",
}


def wait_for_checkpoint(process, folder):
    while process.poll() is None and not any((folder / "checkpoints").glob("[0-9]*[0-9]")):
        time.sleep(0.01)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("algorithm", "seeds", "strikes"),
    [
        pytest.param("PPO", 3, (signal.SIGKILL, signal.SIGINT), marks=pytest.mark.slow),
        pytest.param("DQN", 2, (signal.SIGKILL,), marks=pytest.mark.slow),
        pytest.param("PPO", 1, (signal.SIGKILL,), marks=pytest.mark.slow),
        pytest.param("DQN", 1, (signal.SIGKILL, signal.SIGKILL), marks=pytest.mark.slow),
    ],
)
def test_killed_at_random_moments_and_resumed(tmp_path, algorithm, seeds, strikes):
    """Killed and resumed twice, then completed: bit-identical to an uninterrupted run."""
    steps = "240000" if algorithm == "PPO" else "40000"
    words = ["train", *ENVIRONMENT[algorithm].split(), "--seeds", str(seeds), "--total-timesteps", steps,
             "--eval-episodes", "32", "--evaluations", "3", "--checkpoint-interval", "0.05", "--plain"]  # fmt: skip
    reference, folder = tmp_path / "reference", tmp_path / "killed"
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    whole = purerl(*words, "--out", str(reference), env=env)
    assert whole.returncode == 0, whole.stderr
    chance = random.Random()
    process = subprocess.Popen(command(*words, "--out", str(folder)), stdout=subprocess.PIPE, text=True, env=env)
    for struck, number in enumerate(strikes):
        before = len(rows(folder)) if (folder / "metrics.csv").exists() else 0
        wait_for_checkpoint(process, folder)
        while process.poll() is None and len((folder / "metrics.csv").read_text().splitlines()) - 1 <= before:
            time.sleep(0.01)  # training, not starting
        time.sleep(chance.uniform(0, 0.2))
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
        if process.returncode == 0 and struck:  # a fast machine came to the end before the second strike
            break
        assert process.returncode in (-number, 130), "it came to its end before it was killed"
        if number == signal.SIGINT:
            assert f"purerl train --resume {folder}" in out
        process = subprocess.Popen(
            command("train", "--resume", str(folder), "--plain"), stdout=subprocess.PIPE, text=True, env=env
        )
    else:
        out, _ = process.communicate(timeout=250)
    assert process.returncode == 0, out
    assert_same_run(reference, folder)
    assert not list((folder / "checkpoints").glob("*tmp*"))
