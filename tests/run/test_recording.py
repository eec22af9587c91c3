"""Recordings of a run's agents."""

import jax
import pytest
from PIL import Image

from purerl import load_run, train
from purerl.errors import InputError
from purerl.reporting import render
from purerl.run import recording, trained_run


@pytest.fixture(scope="module")
def stepped_on_the_host(tmp_path_factory):
    few = {"num_envs": 2, "rollout_length": 4, "total_timesteps": 32, "evaluations": 0, "eval_episodes": 4}
    folder = tmp_path_factory.mktemp("runs") / "a2c"
    return train("a2c", "CartPole-v1", out=folder, sampler="serial", display="none", **few)


@pytest.mark.long
def test_what_the_host_steps_is_drawn_in_jax(stepped_on_the_host, tmp_path):
    recording.film(stepped_on_the_host, tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames > 5
    env, policy = trained_run.find_policy(str(stepped_on_the_host.folder), None)
    assert len(render.play(env, policy, jax.random.key(0), 5).reward) == 5


@pytest.mark.long
def test_a_grid_holds_an_episode_in_each_place(run_folder, tmp_path):
    run = load_run(run_folder)
    recording.film(run, tmp_path / "one.gif")
    recording.film(run, tmp_path / "grid.gif", rows=2, columns=3)
    with Image.open(tmp_path / "one.gif") as one, Image.open(tmp_path / "grid.gif") as grid:
        assert grid.width >= 3 * one.width and grid.height >= 2 * one.height


@pytest.mark.long
def test_a_suite_without_a_viewer_has_no_page(run_folder, tmp_path):
    with pytest.raises(InputError, match="Catch has no viewer of its own"):
        recording.save_html(load_run(run_folder), tmp_path / "a.html")
    assert not list(tmp_path.iterdir())
