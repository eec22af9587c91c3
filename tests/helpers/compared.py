"""Runs whose comparison has a known answer."""

import json

import numpy as np
import scipy.stats

from purerl.reporting import metrics_csv


def write_run(folder, returns, task="CartPole-v1"):
    folder.mkdir()
    (folder / "config.toml").write_text(f"format = 1\nalgorithm = 'ppo'\nenvironment = '{task}'\n")
    (folder / "summary.json").write_text(json.dumps({"final_return": {"per_seed": returns}}))
    file = metrics_csv.Log(folder / "metrics.csv")
    for update in (1, 2, 3):
        known = [(seed, value) for seed, value in enumerate(returns) if value is not None]
        row = {"update": update, "env_steps": 100 * update, "wall_seconds": 0.1}
        rows = [row | {"seed": s, "episode_return": v * update / 3, "evaluation_return": v} for s, v in known]
        if rows:
            file.write(rows)
    file.close()
    return folder


def write_runs(folder):
    """Write five runs of known returns; return their folders by name."""
    noise = scipy.stats.norm.ppf((np.arange(10) + 0.5) / 10)
    return {
        "good": write_run(folder / "good", (100 + noise).tolist()),
        "same": write_run(folder / "same", (100.2 + noise).tolist()),
        "bad": write_run(folder / "bad", (90 + noise).tolist()),
        "few": write_run(folder / "few", [80.0, None, 81.0, 82.0]),
        "one": write_run(folder / "one", [50.0]),
    }
