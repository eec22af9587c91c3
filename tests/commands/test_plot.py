"""`purerl plot`: pictures of one run or several."""

import shutil

import pytest
from click.testing import CliRunner
from PIL import Image

from purerl.commands.cli import cli
from tests.helpers.cli import told


@pytest.mark.pictures
@pytest.mark.long
def test_one_run_and_several(run_folder, tmp_path):
    one, out = tmp_path / "one", tmp_path / "both.png"
    shutil.copytree(run_folder, one)
    (one / "curve.png").unlink()
    result = CliRunner().invoke(cli, ["plot", str(one)], catch_exceptions=False)
    assert result.output.strip() == str(one / "curve.png")
    result = CliRunner().invoke(cli, ["plot", str(one), str(run_folder), "--out", str(out)], catch_exceptions=False)
    assert result.output.strip() == str(out)
    for path in (one / "curve.png", out):
        with Image.open(path) as image:
            assert image.width > 200


def test_a_folder_that_is_not_there(capsys, run_folder):
    code, err = told(capsys, "plot", str(run_folder), "nowhere")
    assert (code, err) == (2, "purerl: error: there is no run in nowhere: no such folder\n")
