"""Switches that disable compiler workarounds to measure their gain: `with switches.off("product"): ...`.

A program that is traced inside the context is made without them. Its results are the same to rounding.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from purerl.errors import unknown

WORKAROUNDS = {
    "accumulation": "gradients of large batches from parts of them, on a CPU",
    "columns": "means of several columns in one reduction, on a GPU",
    "convolution": "convolutions as products, on a CPU",
    "flat_optimizer": "the optimizer's step on one vector of all parameters",
    "graphs": "loops as CUDA graphs, on a GPU",
    "linear_scan": "linear recurrences step by step, on a CPU",
    "neighbors": "nearest neighbors without a sort of all distances, on a CPU and a GPU",
    "once": "sampled actions computed once, on a CPU",
    "packing": "loops that carry and stack few arrays, on a GPU",
    "permutation": "random orders by a sort of one operand",
    "product": "gradients of layers with few outputs as products of vectors, on a CPU",
    "recurrence": "gradients of recurrent networks by one product for the sequence",
    "reductions": "reductions by XLA's own code instead of its library's, on a CPU",
    "successors": "values of successors from those of the next step, on a CPU",
    "vmap_cond": "branches that stay branches under vmap",
}

_off: ContextVar[frozenset[str]] = ContextVar("off", default=frozenset())


def is_on(name: str) -> bool:
    """Return whether a workaround is enabled in the current trace."""
    assert name in WORKAROUNDS, name
    return name not in _off.get()


@contextlib.contextmanager
def off(*names: str) -> Iterator[None]:
    """Trace without these workarounds.

    Raises:
      InputError: if there is no workaround of that name.
    """
    for name in names:
        if name not in WORKAROUNDS:
            raise unknown("compiler workaround", name, WORKAROUNDS)
    token = _off.set(_off.get() | set(names))
    try:
        yield
    finally:
        _off.reset(token)
