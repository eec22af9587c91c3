"""What the adapters share."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import Mesh, PartitionSpec

from purerl.envs.adapters import common

pytestmark = pytest.mark.suites


def test_what_a_program_builds_serves_another():
    """A suite's object is made where it is first needed, which may be inside a program over devices."""
    kept = []

    def inside(i):
        if not kept:
            with common.building():
                kept.append(jnp.arange(3))
        return kept[0][kept[0][1]] + i

    for axis in ("seed", "data"):
        mesh = Mesh(jax.devices()[:1], (axis,))
        program = jax.shard_map(inside, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec(), check_vma=False)
        assert int(jax.jit(program)(jnp.int32(5))) == 6
    assert int(inside(jnp.int32(5))) == 6
