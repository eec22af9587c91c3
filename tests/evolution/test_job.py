"""The job of an evolution: one program, rows of failed generations, and frames that stay in order."""

import json
import logging
import shutil

import jax
import numpy as np
import pytest

from purerl.evolution.evolve import load
from purerl.evolution.job import EvolutionJob
from purerl.evolution.plan import make_plan
from purerl.evolution.report import summary_of
from purerl.settings.options import EvolveOptions
from tests.helpers.evolutions import SMALL


@pytest.mark.long
def test_one_compilation_serves_all_generations(caplog):
    plan = make_plan("dpo", ["CartPole-v1"], EvolveOptions(population=4, generations=5, devices=1), SMALL)
    life = EvolutionJob(plan, None, "plain")
    jax.config.update("jax_log_compiles", True)  # in all threads: another thread compiles generations
    try:
        with caplog.at_level(logging.WARNING):
            assert life.complete() == 0
    finally:
        jax.config.update("jax_log_compiles", False)
    compiled = [r.getMessage() for r in caplog.records if r.getMessage().startswith("Finished XLA compilation")]
    assert sum("jit(advance)" in line for line in compiled) == 1
    assert len(compiled) < 4, "a few single operations, whatever the number of generations"


@pytest.mark.long
def test_a_generation_in_which_every_training_failed(whole, tmp_path):
    """The others count. The summary counts the completed training runs, if the run stopped before the plan's end."""
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    job = EvolutionJob(make_plan("kl", ["CartPole-v1"], EvolveOptions(population=4, generations=100)), None, True)
    columns = dict(load(folder).columns)
    known = summary_of(job.plan, columns)
    assert (known["generations"], known["training_runs"]) == (8, 32)
    columns |= {name: np.where(np.arange(8) == 7, np.nan, columns[name]) for name in ("mean", "best")}
    found = summary_of(job.plan, columns)
    assert found["mean_last_tenth"] is None and found["best"] == np.max(columns["best"][:7])
    json.dumps(found, allow_nan=False)


@pytest.mark.long
def test_frames_of_an_evolution_that_got_longer_stay_in_order(whole, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    settings = folder / "evolve.toml"
    settings.write_text(settings.read_text().replace("generations = 8", "generations = 12"))
    job = EvolutionJob(load(folder).plan, folder, "plain", go_on=True, locked=False)
    room = len(job.checkpoint.frame_at)
    for generation in range(8, 3 * room):
        job.generation = generation
        job._add_frame(np.full(1, generation))
    at = job.checkpoint.frame_at[job.checkpoint.frame_at >= 0]
    assert (np.diff(at) > 0).all() and at[0] == 0 and at[-1] == 3 * room - 1 and room // 2 < len(at) <= room
