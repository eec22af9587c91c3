"""A run's folder, read for comparing it with another's."""

import csv
import json
import os
import shutil

import jax
import numpy as np

from purerl.run import run, trained_run


def edited(source, folder, changes, file="config.toml"):
    """Return a copy of a folder in whose settings texts that stand there once are others: {old: new}."""
    shutil.copytree(source, folder)
    text = (folder / file).read_text()
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / file).write_text(text)
    return folder


def strike(monkeypatch, update, number):
    """Let runs advance update by update, and send this process a signal after one update."""
    original = run.Run._record_failures

    def struck(self, *args):
        if self.update == update:
            os.kill(os.getpid(), number)
        return original(self, *args)

    monkeypatch.setattr(run, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(run.Run, "_record_failures", struck)


def rows(folder):
    with (folder / "metrics.csv").open() as file:
        return [{k: v for k, v in row.items() if k != "wall_seconds"} for row in csv.DictReader(file)]


def untimed(folder):
    found = json.loads((folder / "summary.json").read_text())
    timed = ("env_steps_per_second", "train_seconds", "compile_seconds", "wall_seconds")
    return {name: value for name, value in found.items() if name not in timed}


def parameters(folder):
    found = trained_run.load_run(folder)
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(found.state.agent)]


def assert_same_run(a, b):
    assert rows(a) == rows(b)
    assert untimed(a) == untimed(b)
    assert parameters(a) == parameters(b)
