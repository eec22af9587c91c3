"""Every test runs under strict dtype promotion, on two forced CPU devices, compiled a fifth faster than for users."""

import os

os.environ["XLA_FLAGS"] = " ".join(
    (
        os.environ.get("XLA_FLAGS", ""),
        "--xla_force_host_platform_device_count=2",
        "--xla_backend_optimization_level=1",
    )
)

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
