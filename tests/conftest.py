"""Every test runs under strict dtype promotion, on two forced CPU devices, with most of XLA's optimizations off.

Programs then compile in 65% of the time, and tests run few steps of each. What one test has compiled, another test,
another worker, the processes that tests start and the next run read from `.cache/tests` of the checkout;
JAX_COMPILATION_CACHE_DIR names another folder.

Tests have kinds, which `CONTRIBUTING.md` lists. Without -m, a run of everything takes those that are quick and need
nothing else installed, and a run of named files or tests takes all but the slow ones.
"""

import base64
import contextlib
import ctypes
import gc
import importlib.metadata
import os
import re
import shutil
import sys
import threading
from pathlib import Path

if sys.dont_write_bytecode:  # as in many containers: every process would compile all modules again, for two seconds
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["XLA_FLAGS"] = " ".join(
    (
        "--xla_force_host_platform_device_count=2",
        "--xla_cpu_parallel_codegen_split_count=1",  # each worker has a core of its own
        "--xla_backend_optimization_level=1",  # where a test is `optimized`
        # Another generator of CPU code compiles in 60% of the time; XLA had it up to jaxlib 0.10.
        "--xla_cpu_use_fusion_emitters=false" if importlib.metadata.version("jaxlib").startswith("0.10.") else "",
        os.environ.get("XLA_FLAGS", ""),  # what is given wins
    )
)
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # workers inherit it
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(__file__).parents[1] / ".cache" / "tests")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # a tenth of the time of lowering

import jax
import pytest
from jax._src.interpreters import mlir
from jaxlib.mlir import ir

from purerl.reporting import plot
from purerl.trust import names

jax.config.update("jax_numpy_dtype_promotion", "strict")

OTHER_KINDS = ("long", "suites", "publish", "slow")
DEFAULT = f"not ({' or '.join(OTHER_KINDS)})"
COMPILED = Path(__file__).parents[1] / ".cache" / "tests"
MOST_BYTES = 3_000_000_000  # limit for compiled programs, in a worker and in that folder

draw = plot.write
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg==")

make_context = mlir.make_ir_context


class Contexts(threading.local):
    """A context for the MLIR modules of a thread.

    JAX makes one for each program that it lowers, which takes 3 ms, a tenth of the time of all tests.
    """

    made, context = 0, None

    def __call__(self):
        """Return the thread's context; a new one from time to time, as it holds the constants of its modules."""
        if ir.Context.current is not None:  # within another program's lowering, whose module would hold this one
            return make_context()
        if self.made % 200 == 0:
            self.context = make_context()
        self.made += 1
        return self.context


mlir.make_ir_context = Contexts()

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


for module in ("tests.helpers.leaving", "tests.helpers.nim", "tests.helpers.reinforce", "tests.run.test_run"):
    names._trusted.set(
        names._trusted.get() | {module}
    )  # environments and algorithms of ours, which tests name where a user would type them


@pytest.fixture(autouse=True)
def trusted():
    """Forget the modules that a test named: the next one may not import them."""
    before = names._trusted.get()
    yield
    names._trusted.set(before)


@pytest.fixture(autouse=True, scope="module")
def free_compiled_programs():
    """Forget compiled programs when they fill the memory: each takes 3 MB or more."""
    yield
    if resident_bytes() > MOST_BYTES:
        jax.clear_caches()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # on Linux, or they would count until others take the place
            ctypes.CDLL("libc.so.6").malloc_trim(0)


@pytest.fixture(autouse=True)
def optimizations(request):
    """Compile as a user's run does where a test is `optimized`: one that compares bits of different programs."""
    if request.node.get_closest_marker("optimized") is None:
        yield
        return
    jax.clear_caches()
    jax.config.update("jax_disable_most_optimizations", False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "0")  # for processes that the test starts
        yield
    jax.config.update("jax_disable_most_optimizations", True)
    jax.clear_caches()


@pytest.hookimpl(tryfirst=True)  # before fixtures of modules, which train
def pytest_runtest_setup(item):
    """Draw in tests of `pictures`; elsewhere a PNG of one pixel stands for what takes a second of each run."""
    plot.write = draw if item.get_closest_marker("pictures") else pixel


def pixel(figure, file, kind):
    """Write a PNG of one pixel for a figure."""
    file.write(PIXEL) if kind == "png" else draw(figure, file, kind)


def resident_bytes():
    """Return the memory of this process; 0 where the system does not tell."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else 0


def pytest_configure(config):
    """Choose the kinds of tests, and keep the folder of compiled programs small."""
    named = any(not word.startswith("-") and Path(word.split("::")[0]).suffix == ".py" for word in config.args)
    if not config.option.markexpr:
        config.option.markexpr = "not slow" if named else DEFAULT
    if not hasattr(config, "workerinput") and COMPILED.exists():
        size = sum(path.stat().st_size for path in COMPILED.iterdir() if path.is_file())
        if size > MOST_BYTES:
            shutil.rmtree(COMPILED, ignore_errors=True)


def pytest_ignore_collect(collection_path, config):
    """Do not even import a file whose `pytestmark` names a kind that the default run leaves out."""
    if config.option.markexpr != DEFAULT or collection_path.suffix != ".py":
        return None
    kind = re.search(r"^pytestmark = pytest\.mark\.(\w+)$", collection_path.read_text(encoding="utf-8"), re.MULTILINE)
    return True if kind and kind.group(1) in OTHER_KINDS else None


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    for item in items:
        of_some = item.get_closest_marker("long_for")  # the ids of parameters for which a test is long
        if of_some is not None and item.callspec.id in of_some.args:
            item.add_marker(pytest.mark.long)
        if item.get_closest_marker("gpu") and jax.default_backend() != "gpu":
            item.add_marker(pytest.mark.skip(reason="no GPU here"))
