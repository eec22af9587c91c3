"""A design in chunks: how many trials at once, and how much is done."""

import numpy as np
import pytest

from purerl import Uniform
from purerl.algos.a2c import A2CConfig
from purerl.devices import memory
from purerl.errors import InputError
from purerl.settings.options import RunOptions
from purerl.settings.runs import Settings
from purerl.sweeps.chunks import MEMBERS, Chunks
from purerl.sweeps.plan import SearchOptions, make_sweep_plan


def chunks_of(trials, seeds=2, **more):
    config = A2CConfig(num_envs=2, rollout_length=4, hidden_sizes=(4,), total_timesteps=8 * 6)
    options = RunOptions(seeds=seeds, devices=1)
    run = Settings(algorithm="a2c", environment="Catch", options=options, config=config, parameters={})
    over = {"discount": Uniform(0.9, 0.99)}
    return Chunks(make_sweep_plan(run, SearchOptions(method="random", trials=trials, points=2, **more), over))


@pytest.mark.parametrize(
    ("trials", "seeds", "chunk", "size"),
    [(100, 1, 0, 50), (100, 2, 0, 25), (65, 1, 0, 33), (10, 2, 3, 3), (4, 2, 0, 4)],
)
def test_chunks_are_about_equal_and_as_large_as_serves_a_cpu(trials, seeds, chunk, size):
    chunks = chunks_of(trials, seeds, chunk=chunk)
    assert chunks._first_size(chunks.plan.groups[0]) == size and size * seeds <= MEMBERS


def test_points_complete_chunks(tmp_path):
    """Five trials, two at a time, two points each: six steps, and each second one completes a chunk."""
    chunks = chunks_of(5, chunk=2)
    seen = []
    while chunks.share() < 1:
        assert chunks.compiles() == (not seen), "one program serves all chunks"
        seen.append((chunks.advance(), round(chunks.share(), 2)))
    assert seen == [(False, 0.2), (True, 0.4), (False, 0.6), (True, 0.8), (False, 0.9), (True, 1.0)]
    assert np.isfinite(chunks.curves.final_return()).all()
    chunks.curves.trained[4] = 1
    chunks.save(tmp_path)
    again = chunks_of(5, chunk=2)
    again.restore(tmp_path)
    assert again.share() == 0.8 and again.sizes.tolist() == [2], "what is not complete begins again"
    again.advance()
    again.advance()
    np.testing.assert_array_equal(again.curves.episode_return, chunks.curves.episode_return)


def test_less_memory_than_a_trial_needs(monkeypatch):
    monkeypatch.setattr(memory, "free", lambda: 1000)
    with pytest.raises(InputError, match="one trial x 2 seeds need"):
        chunks_of(2).advance()
