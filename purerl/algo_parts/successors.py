"""Values of true successors, most of which are values of the next step."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from purerl.types import Array, PyTree, Rollout
from purerl.xla import backend, switches
from purerl.xla.vmap_cond import any_member

SHARE = 16  # at most one of so many steps is looked at anew, or all are


def successor_values(
    value_of: Callable[[PyTree, PyTree], Array], values: Array, carry: PyTree, rollout: Rollout
) -> Array:
    """Return the value of each step's true successor, f32[T, B]; no gradient flows through it.

    Within an episode the successor is what the next step saw. On a CPU the network looks only at those after the last
    step and where an episode was truncated; where it was terminated there is no value, and 0 stands for it.

    Args:
      value_of: (carry [...], observation [...]) -> f32[...].
      values: f32[T, B], of the observations.
      carry: [T, B, ...], the recurrent state after each step, before an ending clears it.
      rollout: [T, B].
    """
    values, look = jax.lax.stop_gradient(values), lambda *at: jax.lax.stop_gradient(value_of(*at))
    successors = (carry, rollout.next_observation)
    length, size = rollout.done.shape
    most = length * size // SHARE
    whole = all(leaf.shape[:2] == (length, size) for leaf in jax.tree.leaves(successors))  # no references to others
    if backend.name() != "cpu" or not switches.is_on("successors") or not whole or most == 0:
        return look(*successors)
    cut = rollout.truncated.at[-1].set(False).reshape(-1)
    where = jnp.nonzero(cut, size=most, fill_value=cut.size)[0]

    def some() -> Array:
        rows = lambda x: jnp.concatenate([x[-1], x.reshape(-1, *x.shape[2:]).at[where].get(mode="clip")])
        found = look(*jax.tree.map(rows, successors))
        following = jnp.concatenate([values[1:], found[None, :size]])
        following = following.reshape(-1).at[where].set(found[size:], mode="drop").reshape(length, size)
        return jnp.where(rollout.terminated, 0.0, following)

    return jax.lax.cond(any_member(jnp.sum(cut) > most), lambda: look(*successors), some)
