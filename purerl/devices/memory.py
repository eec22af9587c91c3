"""Memory: the bytes that a program needs, and the bytes that are free."""

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from purerl.errors import InputError
from purerl.types import PyTree
from purerl.xla import backend

SHARE = 0.8  # fraction of the free memory that a program may take: the allocator and other programs need some too


def needed(compiled: Any) -> int:
    """Return the bytes that a call of a compiled program needs: arguments, results and temporary buffers.

    They count for one device, or on a CPU for all devices of this process, which share one memory.
    """
    found = compiled.memory_analysis()
    sizes = (found.argument_size_in_bytes, found.output_size_in_bytes, found.temp_size_in_bytes)
    devices = max((_sharers(where) for where in jax.tree.leaves(compiled.input_shardings)), default=1)
    return (sum(sizes) - found.alias_size_in_bytes) * devices


def free(arguments: PyTree = ()) -> int:
    """Return the bytes that a program may use on the first device: a fraction of the free memory.

    Args:
      arguments: the arguments of the program, as far as they are on the device already: their bytes count as free.
    """
    held = sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize * _sharers(leaf.sharding)
        for leaf in jax.tree.leaves(arguments)
        if isinstance(leaf, jax.Array)
    )
    known = jax.local_devices()[0].memory_stats()
    if known and "bytes_limit" in known:
        return int(SHARE * (known["bytes_limit"] - known["bytes_in_use"] + held))
    return int(SHARE * (host_free() + held))


def _sharers(where: jax.sharding.Sharding) -> int:
    """Return how many devices of an array share one memory."""
    own = where.addressable_devices
    return len(own) if backend.shares_host(next(iter(own))) else 1


def total() -> int:
    """Return the bytes that this process may use on the first device, including those in use."""
    known = jax.local_devices()[0].memory_stats()
    if known and "bytes_limit" in known:
        return int(known["bytes_limit"])
    limits = [limit for limit, _ in _group_limits(Path("/"))]
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *limits])


def host_free(root: Path = Path("/")) -> int:
    """Return the free bytes of this machine, or of the control groups that limit this process.

    Args:
      root: where proc and sys are.
    """
    available = _available(root / "proc/meminfo")
    limits = [total() // 2 if available is None else available]
    limits += [limit - used for limit, used in _group_limits(root)]
    return max(0, min(limits))


def _available(meminfo: Path) -> int | None:
    with contextlib.suppress(OSError, LookupError, ValueError):
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    return None


def _group_limits(root: Path) -> Iterator[tuple[int, int]]:
    """Yield (limit, used) in bytes of the control groups of this process, including the enclosing ones.

    /proc/self/cgroup names a group of each hierarchy, "0::/path" of version 2 and "N:memory:/path" of version 1. In a
    container that path may be the machine's, while the container's own group is mounted at the root: both are asked.
    """
    files = {  # by the hierarchy: where it is mounted, and the names of its files
        "": ("sys/fs/cgroup", "memory.max", "memory.current", "memory.stat", "inactive_file"),
        "memory": (
            *("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat"),
            "total_inactive_file",
        ),
    }
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = [*line.split(":", 2), "", ""][:3]
            kind = "memory" if "memory" in controllers.split(",") else controllers
            if kind not in files or not path:
                continue
            mount, *names = files[kind]
            group = Path(path.lstrip("/"))
            for where in (group, *group.parents):
                yield from _limit(root / mount / where, *names)


def _limit(group: Path, limit: str, used: str, statistics: str, reclaimable: str) -> Iterator[tuple[int, int]]:
    """Yield (limit, used) of a group that has a limit; file caches that the kernel can drop do not count as used."""
    with contextlib.suppress(OSError, ValueError):
        most = int((group / limit).read_text())  # "max": none
        taken = int((group / used).read_text())
        with contextlib.suppress(OSError, ValueError, LookupError):
            lines = dict(line.split() for line in (group / statistics).read_text().splitlines())
            taken -= int(lines[reclaimable])
        yield most, max(taken, 0)


def nbytes(tree: PyTree) -> int:
    """Return the bytes of a tree of arrays or of their shapes."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def too_little(what: str, needed: int, free: int) -> InputError:
    """Return the error for a program that does not fit."""
    return InputError(
        f"{what} need {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free: train fewer seeds, or fewer environments"
    )


def exhausted(error: Exception) -> bool:
    """Return whether a program failed because there was not enough memory."""
    return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
