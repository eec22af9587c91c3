"""Games in turns: from a rollout of every step to a rollout of each agent's turns."""

import chex
import jax
import jax.numpy as jnp

from purerl.types import Array, Rollout


def turns_only(rollout: Rollout, turn: Array, next_turn: Array) -> Rollout:
    """Return the rollout from turn to turn: each agent's turns first, then steps that do not count.

    A transition spans from an agent's turn to its next turn, or to the end of the episode if that comes first. Its
    reward sums everything between, including the opponents' replies; discounts count the agent's turns. A turn whose
    outcome lies beyond the rollout does not count; the one before it bootstraps from it.

    Args:
      rollout: [T, B].
      turn: bool[T, B], whether an agent's action counts.
      next_turn: bool[T, B], the same for the next step; ignored where an episode ended.
    """
    chex.assert_equal_shape([rollout.reward, turn, next_turn])
    length = turn.shape[0]

    def back(later: tuple[Array, ...], now: tuple[Array, ...]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        time, reward, terminated, truncated, next_turn = now
        here = terminated | truncated | next_turn
        outcome = (
            reward + jnp.where(here, 0.0, later[0]),
            jnp.where(here, terminated, later[1]),
            jnp.where(here, truncated, later[2]),
            jnp.where(here, time, later[3]),  # the step that it shows in
            here | later[4],  # whether it is known
        )
        return outcome, outcome

    no, zero = jnp.zeros_like(turn[0]), jnp.zeros_like(rollout.reward[0])
    steps = (jnp.arange(length, dtype=jnp.int32), rollout.reward, rollout.terminated, rollout.truncated, next_turn)
    beyond = (zero, no, no, jnp.zeros(no.shape, jnp.int32), no)
    _, (reward, terminated, truncated, step, known) = jax.lax.scan(back, beyond, steps, reverse=True)
    counts = turn & known & (True if rollout.mask is None else rollout.mask)
    order = jnp.argsort(~counts, axis=0, stable=True)
    pick = lambda tree, at: jax.tree.map(lambda x: _along_time(x, at), tree)
    mask, terminated, truncated = pick((counts, terminated, truncated), order)
    last = mask & ~jnp.concatenate([mask[1:], jnp.ones_like(mask[:1])])
    return Rollout(
        observation=pick(rollout.observation, order),
        action=pick(rollout.action, order),
        reward=pick(reward, order),
        terminated=terminated & mask,
        truncated=(truncated & mask) | (last & ~terminated),
        next_observation=pick(rollout.next_observation, pick(step, order)),
        extras=pick(rollout.extras, order),
        carry=rollout.carry,
        mask=mask,
    )


def _along_time(x: Array, at: Array) -> Array:
    """Return x[at[t, b], b], [T, B, ...]."""
    return jnp.take_along_axis(x, at.reshape(at.shape + (1,) * (x.ndim - 2)), axis=0)
