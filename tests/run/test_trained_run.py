"""Agents from a run's folder: their policy, their episodes, and what cannot be loaded."""

import shutil

import jax
import numpy as np
import pytest

from purerl import load_run
from purerl.errors import InputError
from purerl.reporting import render, summary
from purerl.run import trained_run


@pytest.fixture(scope="module")
def loaded(run_folder):
    return load_run(run_folder)


def test_what_a_run_holds(loaded):
    assert int(loaded.state.num_updates) == 10 and loaded.failed.tolist() == [False, False]
    weights = [jax.tree.leaves(loaded.agent(i).params)[1] for i in (0, 1)]
    assert weights[0].shape == weights[1].shape and (weights[0] != weights[1]).any()


def test_episodes_are_those_of_the_final_evaluation(loaded, run_folder):
    played = trained_run.play(loaded, 8)
    assert played.episode_return.shape == (2, 8) and played.finished.all()
    final = summary.read(run_folder / "summary.json")["final_return"]["per_seed"]
    np.testing.assert_allclose(played.episode_return.mean(axis=1), final, rtol=1e-6)
    more = trained_run.play(loaded, 40)  # two batches of 32
    np.testing.assert_array_equal(more.episode_return[:, :8], played.episode_return)


def test_policies_by_name(run_folder, key):
    env, policy = trained_run.find_policy(str(run_folder), "Catch")
    assert env.rows == 5, "the run's own parameters"
    assert len(render.play(env, policy, key, 20).reward) == 4
    env, _ = trained_run.find_policy("random", "Catch")
    assert env.rows == 10
    for name, message in (
        ("nothing", "there is no policy 'nothing'; allowed: random, a run's folder, module:function"),
        (str(run_folder), "was trained on Catch, whose spaces are others"),
    ):
        with pytest.raises(InputError, match=message):
            trained_run.find_policy(name, "CartPole-v1")


def test_a_run_without_a_checkpoint(run_folder, tmp_path):
    shutil.copy(run_folder / "config.toml", tmp_path)
    with pytest.raises(InputError, match="has no checkpoint yet"):
        load_run(tmp_path)
