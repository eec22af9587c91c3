"""Reports the kind of device that programs are traced for, its strengths, and its compiler's options.

Other packages call these functions and never ask for the platform.

Example:
  >>> import purerl
  >>> isinstance(purerl.backend.compiler_options(), dict)
  True
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, ParamSpec

import jax

from purerl.errors import InputError
from purerl.types import PyTree
from purerl.xla import switches

P = ParamSpec("P")

# Loops become CUDA graphs, and kernels write what a step stacks: XLA's copy, whose place depends on the turn, cannot be
# part of a graph. An update of PPO is then one launch.
GRAPHS: dict[str, Any] = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,WHILE",
    "xla_disable_hlo_passes": "fusion-dynamic-memcpy-rewriter",
}

# XLA's library computes products and convolutions, but nothing fused with them and no reductions: with those, jaxlib
# 0.10.2 gives wrong sums (jax issue 39103), and sums over an axis of two or three take up to fourteen times as long.
ALONE: dict[str, Any] = {
    "xla_cpu_experimental_ynn_fusion_type": (
        "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
    )
}

SMALL = 300_000  # numbers in a state
MANY = 1 << 22  # numbers of all members: to copy them once more takes a GPU as long as some twenty kernels

_named: ContextVar[str | None] = ContextVar("backend", default=None)
_members: ContextVar[int] = ContextVar("members", default=1)


def name() -> str:
    """Return "cpu", "gpu" or "tpu", the platform of the program that is being traced.

    Raises:
      InputError: if JAX finds no device, such as with JAX_PLATFORMS of a kind that is not here.
    """
    try:
        return _named.get() or jax.default_backend()
    except RuntimeError as error:
        raise InputError(f"JAX finds no device: {str(error).splitlines()[0]}") from None


def shares_host(device: object = None) -> bool:
    """Return whether devices are the host's own cores and memory, as on a CPU.

    Several of them then share one memory, and a program can call a host library's functions.

    Args:
      device: a `jax.Device`, or None for the kind that is traced for.
    """
    return _kind(device) == "cpu"


def runs_members_in_turn(device: object = None) -> bool:
    """Return whether one member of a population fills a device, so that several in parallel are not faster.

    On a CPU, members in turn also use its cache better, and their bits do not depend on their number. A GPU is only
    filled by many members.

    Args:
      device: a `jax.Device`, or None for the kind that is traced for.
    """
    return _kind(device) == "cpu"


def branches_are_cheap() -> bool:
    """Return whether a branch costs less than a small computation; on a GPU it interrupts the compiled graph."""
    return name() == "cpu"


def _kind(device: Any) -> str:
    return name() if device is None else device.platform


@contextlib.contextmanager
def traced_for(backend: str) -> Iterator[None]:
    """Trace for another kind of device, to compile for one that this machine lacks."""
    token = _named.set(backend)
    try:
        yield
    finally:
        _named.reset(token)


@contextlib.contextmanager
def side_by_side(members: int) -> Iterator[None]:
    """Trace for this many parallel members of a `vmap`, such as seeds: on a GPU, copies then become expensive."""
    token = _members.set(_members.get() * members)
    try:
        yield
    finally:
        _members.reset(token)


def copies_cost_more(tree: PyTree) -> bool:
    """Return whether on a GPU copying each member's tree costs more than launching kernels for its leaves."""
    return name() == "gpu" and _members.get() * sum(leaf.size for leaf in jax.tree.leaves(tree)) > MANY


def start_options(state: PyTree) -> dict[str, int] | None:
    """Return the `compiler_options` of `jax.jit` for a program that runs once, such as `vectorize`'s `reset`.

    A small start runs in an instant either way, and on a CPU compiles in half the time without optimization.

    Args:
      state: what it returns, or the shapes.
    """
    small = sum(leaf.size for leaf in jax.tree.leaves(state)) < SMALL
    quick = {"xla_backend_optimization_level": 0} if small and name() == "cpu" else {}
    return quick | (compiler_options(graphs=False) or {}) or None


def jit(function: Callable[P, PyTree], *, graphs: bool = False, **options: Any) -> jax.stages.Wrapped:
    """Return `jax.jit` of a function with our `compiler_options`; other options as for `jax.jit`."""
    return jax.jit(function, compiler_options=compiler_options(graphs=graphs), **options)


def compiler_options(*, graphs: bool = True) -> dict[str, Any] | None:
    """Return the `compiler_options` of `jax.jit`.

    On a CPU they keep reductions from XLA's library, which is slow at narrow ones and in jaxlib 0.10.2 wrong at some.

    Args:
      graphs: whether loops are to be CUDA graphs on a GPU; False for what is not a whole training.
    """
    if name() == "cpu":
        return ALONE if switches.is_on("reductions") else None
    return GRAPHS if graphs and name() == "gpu" and switches.is_on("graphs") else None
