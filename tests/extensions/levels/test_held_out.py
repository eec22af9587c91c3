"""Held-out levels of a run: agents' results on each, printed and plotted; a run with levels resumes bit-identically."""

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from PIL import Image

from purerl.envs.classic.cartpole import CartPole
from purerl.envs.grid.maze import Maze
from purerl.errors import InputError
from purerl.extensions.levels import held_out
from purerl.loop.evaluate import play_episodes
from purerl.run import opening
from purerl.run.opening import old_run
from purerl.run.trained_run import load_run
from purerl.settings.runs import settings
from tests.helpers.cli import told

FLAGS = {
    "num_envs": 4,
    "rollout_length": 16,
    "hidden_sizes": (8,),
    "rnn_size": 4,
    "num_minibatches": 2,
    "num_epochs": 1,
    "total_timesteps": 64 * 20,
    "levels_capacity": 12,
    "levels": "accel",
    "seeds": 2,
    "eval_episodes": 8,
    "evaluations": 1,
}


@pytest.fixture(scope="module")
def maze_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "ppo-Maze"
    assert opening.start(settings("ppo", "Maze", FLAGS, {"time_limit": 12}), folder, plain=True) == 0
    return folder


@pytest.mark.long
def test_each_level_is_played_by_each_seed(maze_run):
    trained = load_run(maze_run)
    levels = held_out.chosen_levels(trained.plan.env, "empty,spiral", "Maze")
    results = held_out.play_levels(trained, trained.plan, levels, 6)
    assert results.names == ("empty", "spiral") and results.episode_return.shape == (2, 2, 6)
    keys = jax.random.split(jax.random.key(0), 2)
    env = Maze(**Maze().held_out_levels()["spiral"], time_limit=12)
    alone = play_episodes(trained.trainer.algorithm, env, trained.agent(1), keys[1], 6, 100, True)
    np.testing.assert_array_equal(results.episode_length[1, 1], alone.episode_length)
    np.testing.assert_allclose(results.episode_return[1, 1], alone.episode_return, rtol=1e-5)


def test_the_table():
    trained: Any = SimpleNamespace(
        settings=SimpleNamespace(algorithm="ppo", environment="Maze"),
        state=SimpleNamespace(num_updates=20),
        failed=np.zeros(2, bool),
    )
    returns = np.array([[[0, 1], [0, 0]], [[1, 0.5], [0, 0]]], np.float32)
    results = held_out.LevelResults(
        names=("a", "b"), episode_return=returns, episode_length=np.full((2, 2, 2), 7, np.int32)
    )
    np.testing.assert_array_equal(results.solved, [[0.5, 0], [1, 0]])
    lines = held_out.table(trained, results)
    assert lines[0] == "ppo on Maze, update 20" and lines[2].split() == ["a", "75.0%", "0.625", "7"]
    assert lines[4].split()[:2] == ["all", "37.5%"] and "solved 25.0%, 50.0%; standard error 12.5%" in lines[5]


@pytest.mark.long
def test_command_and_picture(maze_run, tmp_path, capsys):
    path = tmp_path / "levels.png"
    words = ("evaluate", str(maze_run), "--no-cache", "--levels", "empty,four rooms,rings", "--episodes", "3")
    code, _ = told(capsys, *words, "--picture", str(path))
    assert code == 0
    with Image.open(path) as image:
        assert image.size[0] > 2 * image.size[1]
    for more, message in (
        (("--levels", ","), "--levels names no level of Maze; allowed: held-out, "),
        (("--levels", "spirl"), "unknown level of Maze 'spirl': did you mean 'spiral'"),
        (("--picture", "x.png"), "--picture only works with levels: add --levels held-out"),
        (("--levels", "held-out", "--picture", "x.gif"), "must end in .png"),
        (("--levels", "held-out", "--gif", "x.gif"), "--levels cannot be combined with recordings"),
    ):
        code, err = told(capsys, "evaluate", str(maze_run), "--no-cache", *more)
        assert code == 2 and message in err and err.count("\n") == 1, err
    with pytest.raises(InputError, match="CartPole-v1 has no held-out levels"):
        held_out.chosen_levels(CartPole(), "held-out", "CartPole-v1")


@pytest.mark.long
def test_a_run_that_is_stopped_goes_on_to_the_bit(maze_run, tmp_path, monkeypatch):
    """Its buffer, the levels it plays and what comes next are in the checkpoint."""
    folder = tmp_path / "stopped"
    chosen = settings("ppo", "Maze", {**FLAGS, "checkpoint_interval": 0}, {"time_limit": 12})
    job = opening.new_run(chosen, folder, "none")
    advance = job.advance

    def stop_halfway(*votes):
        advance(*votes)
        if job.update >= 9:
            job.stop.signal = 2

    monkeypatch.setattr(job, "advance", stop_halfway)
    assert job.complete() == 130
    stopped = load_run(folder)
    assert 9 <= int(stopped.state.num_updates) < 20 and int(stopped.state.agent.buffer.filled[0]) > 0
    assert old_run(folder, "none").complete() == 0
    whole, resumed = load_run(maze_run).state, load_run(folder).state
    words = lambda x: np.asarray(jax.random.key_data(x)) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(words(one), words(other))


@pytest.mark.long
def test_an_agent_starts_a_run_without_levels(maze_run, tmp_path):
    """The settings of the run that it starts from hold levels; none says that they do not count."""
    flags = {**FLAGS, "levels": "none", "start": str(maze_run), "total_timesteps": 64}
    del flags["levels_capacity"]
    folder = tmp_path / "started"
    assert opening.start(settings("ppo", "Maze", flags, {"time_limit": 12}), folder, plain=True) == 0
    assert not hasattr(load_run(folder).state.agent, "buffer")
