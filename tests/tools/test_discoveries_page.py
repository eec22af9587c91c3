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
    tuned = {
        "learning_rate": 0.004,
        "clip_epsilon": 0.2,
        "clips_value": False,
        "training_runs": 40,
        "cpu_seconds": 36.0,
    }
    (tmp_path / "scores.json").write_text(json.dumps({"tuned_ppo": tuned, "scores": scores, "cpu_seconds": 7200}))
    (tmp_path / "dpo").mkdir()
    summary = {"generations": 3, "training_runs": 12, "mean_first": 0.1, "mean_last_tenth": 0.9}
    (tmp_path / "dpo" / "summary.json").write_text(json.dumps(summary))
    (tmp_path / "dpo" / "generations.csv").write_text("generation,sigma\n1,0.3\n2,0.45\n")
    command = "purerl evolve dpo " + " ".join(f"--flag-{i} value" for i in range(20))
    about = {"dpo": ("It.", command), "later": ("Not yet.", "")}
    page = script.write_page(tmp_path, about, ["Catch"], {}).read_text()
    assert "| `zoo/dpo` | 0.33 (" in page and "later" not in page and "2.00, compilation" in page
    assert page.index("| Catch |") < page.index("*unseen:*") < page.index("| Acrobot-v1 |")
    assert "to 0.9, and sigma from 0.3 to 0.45." in page
    assert "**1 (1 to 1)**" in page and "an unclipped value" in page
    lines = [line for line in page.splitlines() if line.startswith("    ") and "flag" in line]
    assert len(lines) > 2 and all(len(line) < 120 for line in lines) and lines[0].endswith("\\")
    assert " ".join(line.strip().rstrip("\\").strip() for line in lines) == command
    assert np.isfinite(script._known([1.0, float("nan")])).all()


def test_ablations_are_compared_with_what_they_change(script, tmp_path):
    """On the unseen tasks alone, in the rows of those that have all scores."""
    write = lambda path, content: path.parent.mkdir(exist_ok=True, parents=True) or path.write_text(content)
    for name, runs in (("lpo", 10), ("ablations/lpo-seed", 20)):
        write(tmp_path / name / "summary.json", json.dumps({"training_runs": runs}))
        write(tmp_path / name / "cpu_seconds.txt", "1800")
    theirs = {"Catch": {"lpo-seed": [0.0] * 6}, "Acrobot-v1": {"lpo-seed": [-70.0] * 6}}
    write(tmp_path / "ablations" / "scores.json", json.dumps({"scores": theirs}))
    scores = {"Acrobot-v1": {"PPO": [-80.0] * 6, "tuned PPO": [-70.0] * 6, "lpo": [-60.0] * 6}}
    changes = {"lpo-seed": "another seed", "lpo-life": "not yet"}
    table = script._ablations(tmp_path / "ablations", changes, scores, ["Acrobot-v1"]).splitlines()
    assert table[-2].startswith("| none | 10 | 0.50 | 1.00 (") and table[-2].endswith("|  |")
    assert table[-1] == "| another seed | 20 | 0.50 | 1.00 (1.00 to 1.00) | 0.50 (0.50 to 0.50) | 0.00 (0.00 to 0.00) |"
    assert script._ablations(tmp_path / "none", changes, scores, ["Acrobot-v1"]) == ""
