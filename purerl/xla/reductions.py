"""Means of several columns in one reduction on a GPU, where each column would need two kernels.

On a CPU, where kernels cost nothing and a copy does, each column has its own.
"""

from collections.abc import Callable, Mapping

import jax.numpy as jnp

from purerl.types import Array
from purerl.xla import backend, switches


def over_columns(
    reduction: Callable[[Array, tuple[int, ...] | None], Array], columns: Mapping[str, Array]
) -> dict[str, Array]:
    """Return a reduction of each column.

    Args:
      reduction: (x, axes) -> x reduced over those axes, or over all if None.
      columns: f32[N] each.
    """
    if backend.name() == "cpu" or not switches.is_on("columns"):
        return {name: reduction(x, None) for name, x in columns.items()}
    together = reduction(jnp.stack(list(columns.values()), axis=-1), (0,))
    return {name: together[index] for index, name in enumerate(columns)}
