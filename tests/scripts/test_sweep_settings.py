"""The script that sweeps."""

import pytest

pytestmark = pytest.mark.publish


def test_it_sweeps_and_goes_on(script, tmp_path, capsys):
    words = ["--trials", "4", "--seeds", "2", "--steps", "4096", "--out", str(tmp_path / "sweep")]
    result = script.main(words)
    assert set(result.best) == {"learning_rate", "num_envs", "env.gravity"} and len(result.rows()) == 8
    assert (tmp_path / "sweep" / "best.toml").exists()
    assert capsys.readouterr().out.count("trial ") >= 4
    assert script.main(words).best == result.best
