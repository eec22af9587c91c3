"""Opening a run again: without a checkpoint, and with settings that do not fit its checkpoint."""

import shutil

import pytest

from purerl.errors import InputError
from purerl.run import opening, trained_run
from tests.helpers.runs import assert_same_run, edited


@pytest.mark.long
def test_resume_without_a_checkpoint_begins_again(run_folder, tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "config.toml").write_bytes((run_folder / "config.toml").read_bytes())
    (folder / "metrics.csv").write_text((run_folder / "metrics.csv").read_text()[:200])  # rows that no checkpoint has
    assert opening.resume(folder, plain=True) == 0
    assert_same_run(run_folder, folder)


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("seeds = 2", "seeds = 3", "seeds is 3, and the checkpoint was made with 2: set it back to 2"),
        ("seeds = 2", "seeds = 1", "seeds is 1, and the checkpoint was made with 2"),
        ("seed = 0", "seed = 7", "seed is 7, and the checkpoint was made with 0"),
        ("num_envs = 2", "num_envs = 4", "num_envs is 4, and the checkpoint was made with 2"),
        ("hidden_sizes = [4]", "hidden_sizes = [4, 4]", "hidden_sizes is 4,4, and the checkpoint was made with 4"),
        ('activation = "tanh"', 'activation = "relu"', "activation is relu, and the checkpoint was made with tanh"),
        ("seeds = 2", "", "seeds is 1, and the checkpoint was made with 2"),
    ],
)
def test_seeds_and_shapes_stay_those_of_the_checkpoint(run_folder, tmp_path, old, new, told):
    folder = edited(run_folder, tmp_path / "a", {f"\n{old}\n": f"\n{new}\n"})
    for use in (lambda: opening.resume(folder, plain=True), lambda: trained_run.load_run(folder)):
        with pytest.raises(InputError, match=told) as caught:
            use()
        assert str(folder / "config.toml") in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.long
def test_a_file_of_settings_that_is_cut_off(run_folder, tmp_path):
    shutil.copytree(run_folder, tmp_path / "a")
    file = tmp_path / "a" / "config.toml"
    lines = file.read_text().splitlines(keepends=True)
    for i in range(0, len(lines), 4):
        file.write_text("".join(lines[:i]))
        with pytest.raises(InputError, match=r"cut off|not complete"):
            opening.resume(tmp_path / "a", plain=True)
