"""Memory: the bytes that a program needs, and the bytes there are."""

import math
import os
from pathlib import Path
from typing import Any

import jax

from purerl.errors import InputError
from purerl.types import PyTree

SHARE = 0.8  # of the free memory that a program may take: the allocator, and others, need some too


def needed(compiled: Any) -> int:
    """Return the bytes that a call of a compiled program takes: arguments, results and what it works with."""
    found = compiled.memory_analysis()
    sizes = (found.argument_size_in_bytes, found.output_size_in_bytes, found.temp_size_in_bytes)
    return sum(sizes) - found.alias_size_in_bytes


def free() -> int:
    """Return the bytes that programs may take on the first device: a part of what is free now."""
    known = jax.local_devices()[0].memory_stats()
    if known and "bytes_limit" in known:
        return int(SHARE * (known["bytes_limit"] - known["bytes_in_use"]))
    return int(SHARE * _host_free())


def total() -> int:
    """Return the bytes that the first device has, used or not."""
    known = jax.local_devices()[0].memory_stats()
    if known and "bytes_limit" in known:
        return int(known["bytes_limit"])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _host_free() -> int:
    """Return the bytes free on this machine, or within the limit of the container."""
    limits = []
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        limits.append(int(lines["MemAvailable"].split()[0]) * 1024)
    else:
        limits.append(total() // 2)
    group = Path("/sys/fs/cgroup")
    if (group / "memory.max").exists() and (group / "memory.current").exists():
        limit = (group / "memory.max").read_text().strip()
        if limit.isdigit():
            limits.append(int(limit) - int((group / "memory.current").read_text()))
    return max(0, min(limits))


def nbytes(tree: PyTree) -> int:
    """Return the bytes of a tree of arrays, or of their shapes."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def too_little(what: str, needed: int, free: int) -> InputError:
    """Return the error for a program that does not fit."""
    return InputError(
        f"{what} need {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free: train fewer seeds, or fewer environments"
    )


def exhausted(error: Exception) -> bool:
    """Return whether a program failed because there was not enough memory."""
    return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
