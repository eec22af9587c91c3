"""Taking turns: a rollout of every step as a rollout of an agent's own turns."""

import jax
import jax.numpy as jnp

from purerl.types import Array, Rollout


def own_turns(rollout: Rollout, turn: Array, following: Array) -> Rollout:
    """Return what agents went through from turn to turn, their turns first and then steps that do not count.

    What a turn leads to is the agent's next turn, or the end of the episode if that comes first. Its reward is the sum
    of those until then, the moves of others included, so that who is beaten by the reply has lost by the move before
    it; discounts count own turns. A turn whose outcome lies beyond the rollout does not count; the one before it is
    bootstrapped from it.

    Args:
      rollout: [T, B].
      turn: bool[T, B], whether an agent's action counts.
      following: bool[T, B], whether it will in the step after; of no matter where an episode ended.
    """
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
    steps = (jnp.arange(length, dtype=jnp.int32), rollout.reward, rollout.terminated, rollout.truncated, following)
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
