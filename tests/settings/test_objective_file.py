"""The file of a discovered objective."""

import dataclasses

import jax
import numpy as np
import pytest

from purerl import zoo
from purerl.errors import InputError
from purerl.evolution import candidates
from purerl.functional.drifts import LPO
from purerl.settings import agent_file, objective_file


def lpo():
    """Return an objective that differs from every start."""
    start = candidates.lpo(jax.random.key(3))
    network = dataclasses.replace(start.drift.network, output=np.linspace(-1, 1, 128, dtype=np.float32))
    return dataclasses.replace(start, drift=dataclasses.replace(start.drift, network=network))


def test_it_is_read_as_it_was_written(tmp_path):
    """By its path, and by the folder of an evolution that holds it."""
    (tmp_path / objective_file.NAME).write_bytes(objective_file.content("lpo", lpo(), {"generations": "3"}))
    for name in (tmp_path, tmp_path / objective_file.NAME):
        entry, found = objective_file.load(str(name))
        assert (entry.algorithm, entry.argument) == ("ppo", "objective") and isinstance(found.drift, LPO)
        assert jax.tree.all(jax.tree.map(np.array_equal, found, lpo()))


def test_it_is_read_while_a_program_is_traced(tmp_path):
    """`make_trainer` runs inside of a run's compiled functions."""
    (tmp_path / objective_file.NAME).write_bytes(objective_file.content("lpo", lpo()))
    found = []
    jax.eval_shape(lambda: found.append(objective_file.load(str(tmp_path)).objective))
    assert jax.tree.all(jax.tree.map(np.array_equal, found[0], lpo()))


def test_numbers_that_are_not_arrays_are_read(tmp_path):
    path = tmp_path / "loss.safetensors"
    path.write_bytes(objective_file.content("actor-critic", candidates.actor_critic(jax.random.key(0))))
    assert float(objective_file.load(str(path)).objective.value_coefficient) == 0.5


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"drift.network.output": np.zeros(3, np.float32)}, r"drift.network.output of .* is float32\[3\]; it must be"),
        ({"drift.network.output": np.full(128, np.nan, np.float32)}, "not finite"),
        ({"drift.network.outputs": np.zeros(3, np.float32)}, "did you mean 'drift.network.output'"),
        ({"drift.network.output": None}, "has no array drift.network.output"),
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path, change, why):
    path = tmp_path / "wrong.safetensors"
    path.write_bytes(objective_file.content("lpo", lpo()))
    arrays = {name: x for name, x in (agent_file.arrays(path) | change).items() if x is not None}
    path.write_bytes(agent_file.pack(arrays, {"objective": "lpo"}))
    with pytest.raises(InputError, match=why):
        objective_file.load(str(path))


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({"objective": "lpoo"}, "did you mean 'lpo'"),
        ({}, "not the file of an objective"),
        ({"objective": "os:system"}, "--trust os"),
    ],
)
def test_a_file_runs_no_code(tmp_path, about, why):
    path = tmp_path / "named.safetensors"
    path.write_bytes(agent_file.pack({"x": np.zeros(1, np.float32)}, about))
    with pytest.raises(InputError, match=why):
        objective_file.load(str(path))


def test_published_objectives_are_read_by_name():
    for name in zoo.objectives():
        assert objective_file.load(f"zoo/{name}").entry.algorithm in ("ppo", "lpg")


def test_a_link_in_a_folder_is_not_followed(tmp_path):
    """The user named the folder, not what it links to."""
    (tmp_path / "other.safetensors").write_bytes(objective_file.content("lpo", lpo()))
    (tmp_path / "evolution").mkdir()
    (tmp_path / "evolution" / objective_file.NAME).symlink_to(tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="it is a link"):
        objective_file.load(str(tmp_path / "evolution"))


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_is_told(name):
    with pytest.raises(InputError, match="is not a path"):
        objective_file.load(name)
