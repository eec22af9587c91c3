"""On a GPU, where loops are CUDA graphs: repeated and resumed runs are bit-identical, and agents learn."""

import signal

import jax
import numpy as np
import pytest

import purerl
from purerl import registry
from purerl.run import opening
from purerl.settings.runs import settings
from purerl.xla import backend
from purerl.xla.neighbors import nearest
from tests.helpers.runs import assert_same_run, strike, untimed
from tests.helpers.small import small

pytestmark = pytest.mark.gpu

TASKS = {  # algorithm -> environment: rollouts, replays, priorities, sequences, search, several agents
    "ppo": "CartPole-v1",
    "pqn": "CartPole-v1",
    "dqn": "CartPole-v1",
    "rainbow": "CartPole-v1",
    "r2d2": "CartPole-v1",
    "muzero": "CartPole-v1",
    "sac": "Pendulum-v1",
    "a2c": "TagGridWorld",
}
UPDATES = 20


def start(algorithm, folder):
    _, config = small(algorithm)
    steps = UPDATES * config.steps_per_update
    options = {"seeds": 2, "log_interval": 4, "evaluations": 2, "eval_episodes": 16, "total_timesteps": steps}
    flags = {name: value for name, value in vars(config).items() if name != "total_timesteps"}
    return opening.start(settings(algorithm, TASKS[algorithm], flags | options, {}), folder, plain=True)


@pytest.mark.parametrize("algorithm", TASKS)
def test_an_interrupted_run_ends_in_the_same_bits(algorithm, tmp_path, monkeypatch):
    assert start(algorithm, tmp_path / "whole") == 0
    strike(monkeypatch, UPDATES // 2, signal.SIGINT)
    assert start(algorithm, tmp_path / "parts") == 128 + signal.SIGINT
    monkeypatch.undo()
    assert opening.resume(tmp_path / "parts", plain=True) == 0
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_loops_as_graphs_give_the_same_numbers():
    factory, cls = registry.algorithm("ppo")
    config = cls(num_envs=64, rollout_length=32)
    train = purerl.make_train(factory, purerl.make("CartPole-v1"), config, 8 * config.steps_per_update)
    key = jax.random.key(0)
    results = [jax.jit(train, compiler_options=options)(key)[0].agent for options in (None, backend.GRAPHS)]
    for plain, graph in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(np.asarray(graph), np.asarray(plain), rtol=1e-3, atol=1e-4)


def test_ppo_solves_cartpole(tmp_path):
    assert opening.start(settings("ppo", "CartPole-v1", {"seeds": 4}), tmp_path / "a", plain=True) == 0
    assert min(untimed(tmp_path / "a")["final_return"]["per_seed"]) > 400


def test_neighbors_are_those_of_a_stable_sort():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 200, (2, 4, 300)).astype(np.float32)
    active = rng.random(x.shape) < 0.9
    index, found = jax.jit(jax.vmap(lambda x, y, active: nearest(x, y, active, None, 10, 64)))(x, y, active)
    square = (x[:, :, None] - x[:, None]) ** 2 + (y[:, :, None] - y[:, None]) ** 2
    square = np.where(active[:, None] & ~np.eye(300, dtype=bool), square, np.inf)
    found, expected = np.asarray(found), np.argsort(square, axis=2, kind="stable")[:, :, :10]
    assert found.all(axis=2).tolist() == active.tolist() == found.any(axis=2).tolist()
    np.testing.assert_array_equal(np.asarray(index)[found], expected[found])
