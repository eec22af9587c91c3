"""The meanings of metrics in reports are those of the documentation."""

import re
from pathlib import Path

from purerl.catalog.metrics import MEANINGS, meaning

ROWS = re.findall(r"^\| `(\w+)` \| (.*?) \|", Path("docs/metrics.md").read_text(encoding="utf-8"), re.MULTILINE)
PROGRESS = {"seed", "update", "env_steps", "wall_seconds", "evaluation_return"}  # no metrics


def test_reports_explain_metrics_in_the_words_of_the_page():
    page = {name: text.replace("`", "") for name, text in ROWS if name not in PROGRESS}
    known = {name: text for name, text in page.items() if not text.startswith("host environments")}
    assert MEANINGS.keys() == known.keys() - {"environment_idle", "policy_lag", "replay_ratio"}
    assert [name for name, text in MEANINGS.items() if not known[name].startswith(text)] == []


def test_the_metric_of_a_policy_has_the_meaning_of_the_metric():
    assert meaning("red/entropy") == meaning("entropy") == MEANINGS["entropy"]
    assert meaning("episode_return_max") == "highest return" and meaning("mine") == ""
