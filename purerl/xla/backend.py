"""The kind of device that programs are traced for, and what its compiler is told."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import jax

# Loops become CUDA graphs, and what a step stacks is written by kernels: a copy whose place depends on the turn, which
# XLA would make of it, has no place in a graph. An update of PPO is then one launch.
GRAPHS: dict[str, Any] = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,WHILE",
    "xla_disable_hlo_passes": "fusion-dynamic-memcpy-rewriter",
}

_named: ContextVar[str | None] = ContextVar("backend", default=None)


def name() -> str:
    """Return "cpu", "gpu" or "tpu": what is traced here will run there."""
    return _named.get() or jax.default_backend()


@contextlib.contextmanager
def traced_for(backend: str) -> Iterator[None]:
    """Trace as for another kind of device, to compile for one that is not here."""
    token = _named.set(backend)
    try:
        yield
    finally:
        _named.reset(token)


def compiler_options() -> dict[str, Any] | None:
    """Return what `jax.jit` is told for a whole training, as its `compiler_options`."""
    return GRAPHS if name() == "gpu" else None
