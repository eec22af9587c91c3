"""Every test runs under strict dtype promotion, on two forced CPU devices, compiled a fifth faster than for users.

What one file's tests have compiled, another's, another worker's and the processes that tests start read from a folder
of this run alone; JAX_COMPILATION_CACHE_DIR names one that stays.
"""

import os
import tempfile

os.environ["XLA_FLAGS"] = " ".join(
    (
        os.environ.get("XLA_FLAGS", ""),
        "--xla_force_host_platform_device_count=2",
        "--xla_backend_optimization_level=1",
    )
)

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # workers inherit it
    COMPILED = tempfile.TemporaryDirectory(prefix="purerl-compiled-", ignore_cleanup_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = COMPILED.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture(autouse=True, scope="module")
def free_compiled_programs():
    """Compiled programs of a whole suite would fill the memory: forget them after each file."""
    yield
    jax.clear_caches()


def pytest_collection_modifyitems(items):
    if jax.default_backend() != "gpu":
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no GPU here"))
