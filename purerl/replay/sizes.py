"""Sizes of a replay in memory, checked before a run starts."""

from typing import Any

from purerl.devices.memory import free, nbytes, total
from purerl.errors import InputError


def check_sizes(capacity: int, num_envs: int, batch_size: int, n_step: int) -> None:
    """Check the sizes of a replay against one another.

    Raises:
      InputError: naming the size and what is allowed.
    """
    if batch_size > capacity:
        raise InputError(f"batch_size {batch_size} is larger than the replay's capacity {capacity}")
    if n_step > capacity // num_envs:
        raise InputError(f"n_step {n_step} is larger than an environment's share of the replay, {capacity // num_envs}")


def check_memory(needed: int, capacity: int, seeds: int = 1, available: int | None = None) -> None:
    """Check that a replay of `capacity` steps, of `needed` bytes for all `seeds` together, fits in memory.

    Args:
      needed, capacity, seeds: as above.
      available: the bytes that it may take; None: all that there are, used or not.

    Raises:
      InputError: saying how many steps would fit.
    """
    there = total() if available is None else available
    if needed > there:
        each, what = f" for each of {seeds} seeds" if seeds > 1 else "", "" if available is None else " free"
        raise InputError(
            f"a replay of {capacity} steps{each} takes {needed / 1e6:,.0f} MB; there are {there / 1e6:,.0f} MB{what}. "
            f"At most {int(capacity * there / needed):,} steps fit"
        )


def line(agent: Any, config: Any, seeds: int) -> str | None:
    """Return the size of a run's replay, in one line; None for an algorithm without one.

    Args:
      agent: shapes of the agents of all seeds, as a run's state holds them.
      config: the algorithm's settings.
      seeds: how many there are.

    Raises:
      InputError: if the replays of all seeds do not fit in the free memory together.
    """
    held = getattr(agent, "replay", None)
    if held is None or not hasattr(config, "replay_capacity"):
        return None
    needed = nbytes(held)
    check_memory(needed, config.replay_capacity, seeds, free())
    size = f"{needed / 1e6:,.0f} MB" if needed >= 1e7 else f"{needed / 1e6:.2g} MB"
    each = f" per seed, {seeds} seeds" if seeds > 1 else ""
    return f"replay: {config.replay_capacity:,} steps{each}, {size}"
