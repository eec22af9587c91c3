"""`purerl export`: bad input is one line, before anything is loaded; the file is there."""

import pytest
from click.testing import CliRunner

from purerl.commands.cli import cli
from tests.helpers.cli import told


@pytest.mark.long
def test_a_file_is_written(run_folder, tmp_path):
    path = tmp_path / "policy.safetensors"
    words = ["export", str(run_folder), str(path), "--seed", "1"]
    assert CliRunner().invoke(cli, words, catch_exceptions=False).output.strip() == str(path)
    assert path.stat().st_size > 100


@pytest.mark.long
def test_bad_input(run_folder, tmp_path, capsys):
    for words, message in (
        ((str(run_folder), "policy.pt"), "must end in .stablehlo, .onnx, .safetensors"),
        ((str(run_folder), str(tmp_path / "x.safetensors"), "--seed", "9"), "no seed 9; its seeds are 0 .. 1"),
        ((str(tmp_path), str(tmp_path / "x.safetensors")), "it has no config.toml"),
    ):
        code, err = told(capsys, "export", *words)
        assert code == 2 and message in err and err.count("\n") == 1
