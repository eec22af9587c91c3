"""How much memory a replay takes, told and refused before a run starts."""

import math
import os
from typing import Any

import jax

from purerl.errors import InputError
from purerl.types import PyTree


def check_sizes(capacity: int, num_envs: int, batch_size: int, n_step: int) -> None:
    """Hold the sizes of a replay to one another.

    Raises:
      InputError: naming the size and what is allowed.
    """
    if batch_size > capacity:
        raise InputError(f"batch_size {batch_size} is larger than the replay's capacity {capacity}")
    if n_step > capacity // num_envs:
        raise InputError(f"n_step {n_step} is larger than an environment's share of the replay, {capacity // num_envs}")


def check_memory(needed: int, capacity: int, seeds: int = 1) -> None:
    """Hold a replay of `capacity` steps, for all `seeds` together of `needed` bytes, to the memory there is.

    Raises:
      InputError: saying how many steps would fit.
    """
    there = memory()
    if there is not None and needed > there:
        each = f" for each of {seeds} seeds" if seeds > 1 else ""
        raise InputError(
            f"a replay of {capacity} steps{each} takes {needed / 1e6:,.0f} MB; there are {there / 1e6:,.0f} MB. "
            f"At most {int(capacity * there / needed):,} steps fit"
        )


def memory() -> int | None:
    """Return the bytes that the default device has, or None if it does not tell."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    if jax.default_backend() == "cpu" and hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def nbytes(tree: PyTree) -> int:
    """Return the bytes of a tree of arrays, or of their shapes."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def line(agent: Any, config: Any, seeds: int) -> str | None:
    """Return what the replay of a run takes, in one line; None for an algorithm without one.

    Args:
      agent: shapes of the agents of all seeds, as a run's state holds them.
      config: the algorithm's settings.
      seeds: how many there are.

    Raises:
      InputError: if the replays of all seeds do not fit in memory together.
    """
    held = getattr(agent, "replay", None)
    if held is None or not hasattr(config, "replay_capacity"):
        return None
    needed = nbytes(held)
    check_memory(needed, config.replay_capacity, seeds)
    size = f"{needed / 1e6:,.0f} MB" if needed >= 1e7 else f"{needed / 1e6:.2g} MB"
    each = f" per seed, {seeds} seeds" if seeds > 1 else ""
    return f"replay: {config.replay_capacity:,} steps{each}, {size}"
