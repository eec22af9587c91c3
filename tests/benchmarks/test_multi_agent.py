"""Figures of many agents: what is compared plays alike, and parts are recorded one by one."""

import csv

import numpy as np


def test_parts_take_their_own_place(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "RESULTS", tmp_path)
    for part, found in (("step", "1"), ("memory", "2"), ("step", "3")):
        script.record(part, [script.Row("a, b", found, "20 x")])
    with (tmp_path / "multi_agent.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["part"], row["what"], row["found"]) for row in rows] == [
        ("memory", "a, b", "2"),
        ("step", "a, b", "3"),
    ]


def test_the_opponent_plays_the_game(script):
    """NumPy's runners leave one after the other, and come back when an episode ends."""
    env = script.TagContinuous(num_taggers=2, num_runners=6, side=4.0, tagging_distance=0.1, time_limit=50)
    game, left = script.NumpyTag(env, 3), []
    for _ in range(60):
        observation, _ = game.step()
        left.append(game.active[:, env.num_taggers :].sum(axis=1))
        assert observation.shape == (3, 8, 7 * env.num_neighbors + 1) and np.isfinite(observation).all()
    change = np.diff(np.array(left), axis=0)
    assert (change < 0).any() and (np.array(left)[1:][change > 0] == env.num_runners).all()
