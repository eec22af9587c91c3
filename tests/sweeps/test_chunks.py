"""A design in chunks: how many trials run at once, and how many are done."""

import shutil

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


def chunks_of(trials, seeds=2, devices=1, **more):
    config = A2CConfig(num_envs=2, rollout_length=4, hidden_sizes=(4,), total_timesteps=8 * 6)
    options = RunOptions(seeds=seeds, devices=devices)
    run = Settings(algorithm="a2c", environment="Catch", options=options, config=config, parameters={})
    over = {"discount": Uniform(0.9, 0.99)}
    return Chunks(make_sweep_plan(run, SearchOptions(method="random", trials=trials, points=2, **more), over))


@pytest.mark.long_for("4-2-0-4")
@pytest.mark.parametrize(
    ("trials", "seeds", "chunk", "size"),
    [(100, 1, 0, 50), (100, 2, 0, 25), (65, 1, 0, 33), (10, 2, 3, 3), (4, 2, 0, 4)],
)
def test_chunks_are_about_equal_and_as_large_as_serves_a_cpu(trials, seeds, chunk, size):
    chunks = chunks_of(trials, seeds, chunk=chunk)
    assert chunks._first_size(chunks.plan.groups[0]) == size and size * seeds <= MEMBERS


@pytest.mark.long
def test_points_complete_chunks():
    """Five trials, two at a time, two points each: six steps, and each second one completes a chunk."""
    chunks = chunks_of(5, chunk=2)
    seen = []
    while chunks.share() < 1:
        assert chunks.compiles() == (not seen), "one program serves all chunks"
        seen.append((chunks.advance(), round(chunks.share(), 2)))
    assert seen == [(False, 0.2), (True, 0.4), (False, 0.6), (True, 0.8), (False, 0.9), (True, 1.0)]
    assert np.isfinite(chunks.curves.final_return()).all()


@pytest.mark.long
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("steps", [1, 3])
def test_a_chunk_goes_on_where_it_was(steps, devices, tmp_path):
    """Stopped within a chunk, then resumed on as many devices or others: bit-identical, and nothing runs twice."""
    chunks = chunks_of(5, chunk=2)
    for _ in range(steps):
        chunks.advance()
    assert chunks.running() == 2
    chunks.save(tmp_path)
    again = chunks_of(5, chunk=2, devices=devices)
    again.restore(tmp_path)
    assert again.share() == chunks.share() and again.running() == 0 and again.compiles()
    taken = 0
    while again.share() < 1:
        chunks.advance()
        again.advance()
        taken += 1
    assert taken == 6 - steps
    np.testing.assert_array_equal(again.curves.episode_return, chunks.curves.episode_return)
    again.save(tmp_path)
    assert not (tmp_path / "checkpoints").exists(), "nothing is left to go on with"


@pytest.mark.long
def test_a_chunk_without_its_checkpoint_begins_again(tmp_path):
    chunks = chunks_of(5, chunk=2)
    for _ in range(3):
        chunks.advance()
    chunks.save(tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    again = chunks_of(5, chunk=2)
    again.restore(tmp_path)
    assert again.share() == 0.4 and again.sizes.tolist() == [2]


@pytest.mark.long
def test_less_memory_than_a_trial_needs(monkeypatch):
    monkeypatch.setattr(memory, "free", lambda arguments: 1000)
    with pytest.raises(InputError, match="one trial x 2 seeds need"):
        chunks_of(2).advance()


@pytest.mark.parametrize(("name", "value"), [("sizes", 10**9), ("sizes", -1), ("trained", 10**6), ("trained", -1)])
def test_counts_that_no_sweep_has_are_refused(tmp_path, name, value):
    """A size is taken as it is: it would fill the memory; a point would be beyond the curve's end."""
    chunks = chunks_of(4, chunk=2)
    chunks.save(tmp_path)
    with np.load(tmp_path / "curves.npz") as file:
        arrays = {key: file[key] for key in file.files}
    np.savez(tmp_path / "curves.npz", **(arrays | {name: np.full_like(arrays[name], value)}))
    with pytest.raises(InputError, match=f"is damaged: '{name}' has a number that is not from 0 to"):
        chunks_of(4, chunk=2).restore(tmp_path)
