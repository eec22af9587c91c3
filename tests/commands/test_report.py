"""`purerl report`: pages of one run and of several."""

import shutil

import pytest
from click.testing import CliRunner

from purerl.commands.cli import cli
from tests.helpers.cli import told


@pytest.mark.long
def test_one_run_and_several(run_folder, tmp_path):
    one, out = tmp_path / "one", tmp_path / "both.html"
    shutil.copytree(run_folder, one)
    (one / "report.html").unlink()
    result = CliRunner().invoke(cli, ["report", str(one)], catch_exceptions=False)
    assert result.output.strip() == str(one / "report.html") and (one / "report.html").is_file()
    result = CliRunner().invoke(cli, ["report", str(one), str(run_folder), "--out", str(out)], catch_exceptions=False)
    assert result.output.strip() == str(out) and out.read_text().startswith("<!doctype html>")


def test_bad_folders_and_files(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for words, message in (
        (("nowhere",), "there is no run in nowhere: no such folder"),
        (("empty",), "cannot read empty/config.toml"),
        (("empty", "--out", "x.html"), "--out only works with several runs"),
        (("empty", "empty", "--out", "x.png"), "x.png must end in .html"),
    ):
        code, err = told(capsys, "report", *words)
        assert code == 2 and message in err and err.count("\n") == 1
