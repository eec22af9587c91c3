"""The page of discovered objectives."""

import json

import numpy as np
import pytest

pytestmark = pytest.mark.publish


def test_the_page_shows_who_is_better(script, tmp_path):
    """With intervals, a task of the evolution apart from unseen ones, and a run that failed as the worst."""
    scores = {
        "Catch": {"PPO": [0.5] * 6, "dpo": [1.0] * 6},
        "Acrobot-v1": {
            "later": [0.0] * 6,
            "PPO": [-80.0] * 6,
            "dpo": [-90.0, -90.0, -90.0, -70.0, -70.0, float("nan")],
        },
    }
    tuned = {"learning_rate": 0.004, "clip_epsilon": 0.2, "clips_value": False, "trainings": 40, "cpu_seconds": 36.0}
    (tmp_path / "scores.json").write_text(json.dumps({"tuned_ppo": tuned, "scores": scores, "cpu_seconds": 7200}))
    (tmp_path / "dpo").mkdir()
    summary = {"generations": 3, "trainings": 12, "mean_first": 0.1, "mean_last_tenth": 0.9}
    (tmp_path / "dpo" / "summary.json").write_text(json.dumps(summary))
    command = "purerl evolve dpo " + " ".join(f"--flag-{i} value" for i in range(20))
    page = script.write_page(tmp_path, {"dpo": ("It.", command), "later": ("Not yet.", "")}, ["Catch"]).read_text()
    assert "| `zoo/dpo` | 0.33 (" in page and "later" not in page and "2.00, compilation" in page
    assert page.index("| Catch |") < page.index("*unseen:*") < page.index("| Acrobot-v1 |")
    assert "**1 (1 to 1)**" in page and "an unclipped value" in page
    lines = [line for line in page.splitlines() if line.startswith("    ") and "flag" in line]
    assert len(lines) > 2 and all(len(line) < 120 for line in lines) and lines[0].endswith("\\")
    assert " ".join(line.strip().rstrip("\\").strip() for line in lines) == command
    assert np.isfinite(script._known([1.0, float("nan")])).all()
