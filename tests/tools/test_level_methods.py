"""Ways to choose levels are compared on held-out levels: the table and the picture of two small runs."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from purerl.run import opening
from purerl.settings.runs import settings

pytestmark = pytest.mark.publish

SMALL = {
    "num_envs": 4,
    "rollout_length": 16,
    "hidden_sizes": (8,),
    "rnn_size": 4,
    "num_minibatches": 2,
    "num_epochs": 1,
    "total_timesteps": 64 * 4,
    "levels_capacity": 12,
    "eval_episodes": 4,
    "evaluations": 0,
}


def test_two_methods(script, tmp_path, monkeypatch, capsys):
    lines = []

    def trained(line, check):
        """Train here what the script's command trains in another process, smaller."""
        words = line[3:]
        lines.append(words)
        chosen = settings("ppo", "Maze", {**SMALL, "levels": words[4], "seed": int(words[6])}, {"time_limit": 12})
        assert check and opening.start(chosen, Path(words[10]), plain=True) == 0

    monkeypatch.setattr(script.subprocess, "run", trained)
    more = ["--total-timesteps", "256"]
    words = ["Maze", "--seeds", "1", "--methods", "dr,accel", "--episodes", "2", *more]
    words += ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["level_methods.py", *words])
    script.main()
    folders = [str(tmp_path / "runs" / f"Maze-{method}-0") for method in ("dr", "accel")]
    head = ["train", "ppo", "Maze", "--levels"]
    assert lines == [
        [*head, method, "--seed", "0", "--evaluations", "0", "--out", folder, *more, "--plain"]
        for method, folder in zip(("dr", "accel"), folders, strict=True)
    ]
    found = json.loads((tmp_path / "levels" / "Maze.json").read_text())
    told = capsys.readouterr().out
    for method, name in (("dr", "domain randomization"), ("accel", "ACCEL")):
        (result,) = found["methods"][method]
        assert result["env_steps"] == 256 and len(result["solved"]) == 12
        assert f"{name}: {np.mean(list(result['solved'].values())):.1%} of the episodes" in told
    with Image.open(tmp_path / "levels" / "Maze.png") as image:
        assert image.size[0] > 800
    assert "| ACCEL | 256 | 1 |" in (tmp_path / "README.md").read_text()
    script.main()
    assert len(lines) == 2, "what is complete is not trained again"
