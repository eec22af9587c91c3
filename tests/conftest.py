"""Every test runs under strict dtype promotion, on two forced CPU devices, compiled in half the time of a user's run.

What one file's tests have compiled, another's, another worker's and the processes that tests start read from a folder
of this run alone; JAX_COMPILATION_CACHE_DIR names one that stays.
"""

import gc
import importlib.metadata
import os
import tempfile
from pathlib import Path

os.environ["XLA_FLAGS"] = " ".join(
    (
        "--xla_force_host_platform_device_count=2",
        "--xla_cpu_parallel_codegen_split_count=1",  # each worker has a core of its own
        "--xla_backend_optimization_level=1",  # with 0, a seed's last bits depend on how many seeds are compiled
        # Another generator of CPU code compiles in 60% of the time; XLA had it up to jaxlib 0.10.
        "--xla_cpu_use_fusion_emitters=false" if importlib.metadata.version("jaxlib").startswith("0.10.") else "",
        os.environ.get("XLA_FLAGS", ""),  # what is given wins
    )
)

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # workers inherit it
    COMPILED = tempfile.TemporaryDirectory(prefix="purerl-compiled-", ignore_cleanup_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = COMPILED.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")

gc.freeze()  # tracing makes many objects and few circles: looking for them less often saves a tenth of the time
gc.set_threshold(200_000, 50, 1_000)


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    """The folder of a small run of two seeds that is complete: for what reads runs, and must not change them."""
    from purerl.run import opening
    from purerl.settings.runs import settings

    flags = {"num_envs": 2, "rollout_length": 4, "hidden_sizes": (4,), "total_timesteps": 80, "seeds": 2}
    folder = tmp_path_factory.mktemp("runs") / "a2c-Catch"
    chosen = settings("a2c", "Catch", flags | {"eval_episodes": 8, "evaluations": 2, "log_interval": 2}, {"rows": 5})
    assert opening.start(chosen, folder, plain=True) == 0
    return folder


@pytest.fixture(autouse=True, scope="module")
def free_compiled_programs():
    """Compiled programs of a whole suite would fill the memory: forget them after each file."""
    yield
    jax.clear_caches()


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    long = set(Path(__file__).with_name("long.txt").read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in long:
            item.add_marker(pytest.mark.long)
        if item.get_closest_marker("gpu") and jax.default_backend() != "gpu":
            item.add_marker(pytest.mark.skip(reason="no GPU here"))
