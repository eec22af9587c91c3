"""Checksums of the parts of arrays."""

import jax
import numpy as np
import pytest

from purerl.run import checksums


@pytest.mark.long
def test_parts_of_several_processes_cover_an_array(rng=np.random.default_rng(0)):
    """Checksums of the parts that devices hold are those of the whole array's parts, and must cover it."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    array = rng.normal(size=(4, 6)).astype(np.float32)
    mesh = Mesh(np.array(jax.devices()[:2]), ("x",))
    placed = jax.device_put(array, NamedSharding(mesh, PartitionSpec(None, "x")))
    parts = checksums.parts_of(placed)
    assert [part[:2] for part in parts] == [([0, 0], [4, 3]), ([0, 3], [4, 6])]
    assert checksums.agrees({"a": parts}, {"a": array})
    assert checksums.agrees({"a": checksums.parts_of(array)}, {"a": array})
    assert checksums.agrees({"a": checksums.parts_of(jax.device_put(array))}, {"a": array})
    assert not checksums.agrees({"a": parts[:1]}, {"a": array})
    assert not checksums.agrees({"a": parts}, {"a": array + 1})
