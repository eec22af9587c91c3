"""Threads: one for small products, in a process of its own because JAX starts once."""

import json
import os
import subprocess
import sys

import jax
import pytest

import purerl
from purerl.algos.dqn import DQNConfig
from purerl.algos.ppo import PPOConfig
from purerl.algos.r2d2 import R2D2Config
from purerl.devices import threads
from tests.helpers.processes import own_devices

STARTED = """
import collections, contextlib, json, os, pathlib, sys
import jax
from purerl.devices import threads
from purerl.algos.ppo import PPOConfig
given = json.loads(sys.argv[1])
with threads.fitting(PPOConfig(**given), "CartPole-v1", {}):
    jax.devices()
names = []
for path in pathlib.Path("/proc/self/task").glob("*/comm"):
    with contextlib.suppress(OSError):  # a thread that has ended since
        names.append(path.read_text().strip())
print(json.dumps([dict(collections.Counter(names)), threads.VARIABLE in os.environ]))
"""


def test_multiplications_are_those_of_the_layers():
    config = PPOConfig(num_envs=4, rollout_length=128, num_minibatches=4, hidden_sizes=(64, 32))
    cart, breakout = purerl.make("CartPole-v1"), purerl.make("Breakout-MinAtar")
    assert threads.multiplications(config, cart) == 128 * (4 * 64 + 64 * 32)
    assert threads.multiplications(DQNConfig(batch_size=32, hidden_sizes=(8,)), cart) == 32 * 4 * 8
    sequences = R2D2Config(batch_size=3, sequence_length=8, hidden_sizes=(8,))
    assert threads.multiplications(sequences, cart) == 24 * 4 * 8
    flat = PPOConfig(num_envs=4, rollout_length=128, network="mlp", hidden_sizes=(64, 32))
    pixels = breakout.observation_space.size
    assert threads.multiplications(flat, breakout) == 128 * (pixels * 64 + 64 * 32)
    assert threads.multiplications(PPOConfig(), breakout) is None
    assert threads.multiplications(PPOConfig(), purerl.make("TagContinuous")) is None


def started(given: dict, **variables: str) -> tuple[int, bool]:
    """Return (XLA's threads, whether the variable is left behind) of a process that trains with these settings."""
    kept = {name: value for name, value in own_devices().items() if name not in (threads.VARIABLE, "NPROC")}
    line = [sys.executable, "-c", STARTED, json.dumps(given)]
    done = subprocess.run(line, capture_output=True, text=True, env=kept | variables, check=True)
    counts, left = json.loads(done.stdout)
    return sum(count for name, count in counts.items() if "XLAEigen" in name), left


@pytest.mark.long
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
@pytest.mark.skipif(jax.default_backend() != "cpu", reason="of a CPU")
def test_one_thread_for_small_products():
    assert started({}) == (1, False)
    large = {"num_envs": 2048, "rollout_length": 32}
    assert started(large, PJRT_NPROC="3") == (3, True)  # what the user says holds
    if len(os.sched_getaffinity(0)) > 1:
        assert started(large)[0] > 1
