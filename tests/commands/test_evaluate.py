"""`purerl evaluate`: episodes of a run's agents, told in lines."""

from click.testing import CliRunner
from PIL import Image

from purerl.commands.cli import cli
from purerl.run import trained_run


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
