"""`import purerl` is fast, imports no JAX and starts no backend."""

import json
import subprocess
import sys

import pytest

import purerl


@pytest.fixture(scope="module")
def fresh():
    """What a new process sees."""
    code = """
import json, sys, time
start = time.process_time()
import purerl
own = time.process_time() - start
light = sorted({name.split(".")[0] for name in sys.modules})
start = time.process_time()
import jax
whole = time.process_time() - start
names = [getattr(purerl, name) is not None for name in purerl.__all__]
from jax._src import xla_bridge
print(json.dumps([own, whole, light, names, list(xla_bridge._backends), sorted(sys.modules)]))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    return json.loads(result.stdout)


@pytest.mark.long
def test_is_light(fresh):
    own, whole, light, _, _, _ = fresh
    assert own < 0.2 * whole
    assert not {"jax", "flax", "optax", "numpy"} & set(light)


@pytest.mark.long
def test_public_names_start_no_backend_and_load_nothing_heavy(fresh):
    _, _, _, names, backends, loaded = fresh
    assert all(names)
    assert backends == []
    heavy = {"gymnax", "brax", "matplotlib", "orbax.checkpoint", "scipy.stats", "distrax", "gymnasium"}
    assert not heavy & set(loaded)


@pytest.mark.long
def test_public_names_resolve():
    for name in purerl.__all__:
        assert getattr(purerl, name) is not None
    assert set(dir(purerl)) == set(purerl.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        _ = purerl.trian
