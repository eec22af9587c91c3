"""Values of successors, most of which are the next step's: on a CPU the network evaluates only the rest.

Without it an update of a small network evaluates every observation twice, once as an observation and once as a
successor.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from purerl.types import Array, PyTree, Rollout
from purerl.xla import backend, switches
from purerl.xla.vmap_cond import any_member

SHARE = 16  # at most one of so many steps is evaluated separately, or all are


def evaluate_successors(
    value_of: Callable[[PyTree, PyTree], Array], values: Array, carry: PyTree, rollout: Rollout
) -> Array:
    """Return value_of(carry, rollout.next_observation), f32[T, B]; may be 0 where an episode terminated.

    Args:
      value_of: (carry [...], observation [...]) -> f32[...].
      values: f32[T, B], of the observations.
      carry: [T, B, ...], the recurrent state after each step, before the end of an episode clears it.
      rollout: [T, B].
    """
    successors = (carry, rollout.next_observation)
    length, size = rollout.done.shape
    most = length * size // SHARE
    if backend.name() != "cpu" or not switches.is_on("successors") or most == 0:
        return value_of(*successors)
    cut = rollout.truncated.at[-1].set(False).reshape(-1)
    where = jnp.nonzero(cut, size=most, fill_value=cut.size)[0]

    def few() -> Array:
        rows = lambda x: jnp.concatenate([x[-1], jax.lax.collapse(x, 0, 2).at[where].get(mode="clip")])
        evaluated = value_of(*jax.tree.map(rows, successors))
        next_values = jnp.concatenate([values[1:], evaluated[None, :size]])
        next_values = next_values.reshape(-1).at[where].set(evaluated[size:], mode="drop").reshape(length, size)
        return jnp.where(rollout.terminated, 0.0, next_values)

    return jax.lax.cond(any_member(jnp.sum(cut) > most), lambda: value_of(*successors), few)
