"""Curves of other frameworks' own trainers: a small one of brax's, by the Python of here."""

import importlib
import sys

import pytest

from purerl.errors import InputError

pytestmark = pytest.mark.publish

SMALL = {"num_envs": 8, "rollout_length": 4, "num_minibatches": 2, "hidden_sizes": [8], "total_timesteps": 320}


@pytest.mark.slow
def test_a_peer_s_curve_becomes_a_file_a_row_and_the_reference_of_ours(script, tmp_path):
    curves, files = importlib.import_module("learning_curves"), importlib.import_module("result_file")
    figures, pages = importlib.import_module("figures"), importlib.import_module("results_page")
    theirs = figures.select(["brax/reacher"], ["ppo-by-brax"])[0]._replace(changes=SMALL, seeds=2)
    opponent = script.chosen([f"brax={sys.executable}"])[0][0]
    script.train(theirs, opponent, tmp_path)
    path = files.path_of(theirs.task, theirs.label, tmp_path)
    result = files.read(path)
    assert path.name == "ppo-by-brax.csv" and result.made["trainer"].startswith("brax>=")
    assert sorted(set(result.columns["env_steps"])) == [80 * part for part in range(5)]
    assert len(result.final()) == 2 and len(set(result.final())) == 2 and (result.final() < 0).all()
    assert files.same(result.head, figures.settings_for(theirs))
    ours = theirs._replace(peer="")
    assert curves.train(ours, None, False, tmp_path) == 0
    pages.make_pages([ours.task], tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "brax's own, run here" in page and "[ppo-by-brax](brax-reacher/ppo-by-brax.csv)" in page
    assert (tmp_path / "brax-reacher.png").is_file()


def test_unknown_names_are_errors(script):
    with pytest.raises(InputError, match=r"unknown task with a peer's curve 'brax/aunt'.*did you mean 'brax/ant'"):
        script.main(["brax/aunt"])
    with pytest.raises(InputError, match="unknown opponent 'brex'"):
        script.main(["--peers", "brex"])
