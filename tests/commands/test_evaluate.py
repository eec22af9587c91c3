"""`purerl evaluate`: episodes of a run's agents, reported in lines."""

import pytest
from click.testing import CliRunner
from PIL import Image

from purerl.commands.cli import cli
from purerl.run import trained_run
from tests.helpers.cli import told


@pytest.mark.long
def test_returns_are_those_of_the_run(run_folder, tmp_path):
    words = ["evaluate", str(run_folder), "--episodes", "8", "--no-cache", "--gif", str(tmp_path / "episode.gif")]
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "a2c on Catch, update 10"
    played = trained_run.play(trained_run.load_run(run_folder), 8)
    for seed, returns in enumerate(played.episode_return):
        cells = lines[2 + seed].split()
        assert cells[0] == str(seed) and float(cells[1]) == float(f"{returns.mean():.5g}")
        assert float(cells[5]) == 4.0, "a ball falls four rows"
    assert lines[4].startswith("over seeds: mean ")
    with Image.open(tmp_path / "episode.gif") as image:
        assert image.n_frames == 5


@pytest.mark.long
def test_where_it_was_not_trained(run_folder, tmp_path, capsys):
    """Other starts, a grid with captions; bad input is one line before an episode is played."""
    path = tmp_path / "grid.gif"
    words = ["evaluate", str(run_folder), "--episodes", "4", "--no-cache", "--seed", "5", "--grid", "1x3", "--video"]
    result = CliRunner().invoke(cli, [*words, str(path)], catch_exceptions=False)
    assert result.exit_code == 0 and result.output.splitlines()[-1] == str(path)
    with Image.open(path) as image:
        assert image.n_frames == 5 and image.size[0] % 3 == 0 and image.size[0] >= 3 * 240
    for more, message in (
        (("--video", "x.avi"), "a video must end in .gif, .mp4, .webm"),
        (("--gif", "x.mp4"), "must end in .gif"),
        (("--grid", "3x3"), "--grid only works with a recording"),
        (("--grid", "0x3", "--gif", "x.gif"), "write ROWSxCOLUMNS"),
        (("--env.rowz", "3"), "unknown parameter of Catch 'rowz': did you mean 'rows'"),
        (("--env.rows", "6"), "which has different spaces"),
        (("--html", "x.html"), "--html is for brax"),
        (("--checkpoint", "7"), "has no checkpoint 7; allowed: latest, 10"),
    ):
        code, err = told(capsys, "evaluate", str(run_folder), "--no-cache", *more)
        assert code == 2 and message in err and err.count("\n") == 1, err
