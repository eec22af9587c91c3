"""Turn-based games: converts a rollout of every step into a rollout of each agent's turns."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from purerl.types import Array, PyTree, Rollout
from purerl.xla.trees import where


class TurnCarry(NamedTuple):
    """The recurrent state of agents that take turns; it changes only at their turns."""

    now: PyTree  # [B, ...]
    before: PyTree  # [B, ...], before the last turn


class OpenTurn(NamedTuple):
    """The last turn of each agent whose outcome is not known yet."""

    exists: Array  # bool[B]
    observation: PyTree  # [B, ...]
    action: PyTree  # [B, ...]
    extras: PyTree  # [B, ...]
    reward: Array  # f32[B], so far

    @staticmethod
    def none(observation: PyTree, action: PyTree, extras: PyTree) -> "OpenTurn":
        """Return the record without open turns; arguments are the shapes and dtypes of B agents' steps."""
        zeros = lambda tree: jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), tree)
        num = jax.tree.leaves(action)[0].shape[0]
        return OpenTurn(
            exists=jnp.zeros(num, jnp.bool_),
            observation=zeros(observation),
            action=zeros(action),
            extras=zeros(extras),
            reward=jnp.zeros(num),
        )


def turns_only(rollout: Rollout, turn: Array, next_turn: Array, before: OpenTurn) -> tuple[Rollout, OpenTurn]:
    """Return (the rollout from turn to turn, the turns that are still open).

    A transition spans from an agent's turn to its next turn, or to the end of the episode if that comes first. Its
    reward sums everything between, including the opponents' replies; discounts count the agent's turns. It is in the
    rollout in which its outcome shows, so that every turn is in one, and in one only. In the result each agent's turns
    come first, then steps that do not count; the last turn before those is truncated and marked by `Rollout.cut`. Where
    the rollout says that the episode before was cut off, its open turn is given up, and the result says so, too.

    Args:
      rollout: [T, B]; its carry is a `TurnCarry`.
      turn: bool[T, B], whether an agent's action counts.
      next_turn: bool[T, B], the same for the next step; ignored where an episode ended.
      before: the turns that were open before the rollout.
    """
    chex.assert_equal_shape([rollout.reward, turn, next_turn])
    no = jnp.zeros_like(before.exists)
    cut_off = no if rollout.mask is None else rollout.truncated[0] & ~rollout.mask[0]
    before = before._replace(exists=before.exists & ~cut_off)
    # Row 0 is that of the open turn, row t + 1 that of step t.
    longer = lambda first, xs: jax.tree.map(lambda x, y: jnp.concatenate([x[None], y]), first, xs)
    turn = longer(before.exists, turn if rollout.mask is None else turn & rollout.mask)
    acted = longer(
        (before.observation, before.action, before.extras), (rollout.observation, rollout.action, rollout.extras)
    )
    outcome = _outcomes(
        *map(longer, (before.reward, no, no, no), (rollout.reward, rollout.terminated, rollout.truncated, next_turn))
    )
    counts = turn & outcome.known
    # At most T turns are known: before an open one is closed, at least one step is another's.
    rank = jnp.where(counts, 1, 2).at[0].min(2 - 2 * cut_off.astype(jnp.int32))
    order = jnp.argsort(rank, axis=0, stable=True)[:-1]
    after = _still_open(turn & ~outcome.known, acted, outcome.reward)
    mask, outcome, (observation, action, extras) = _along_time((counts, outcome, acted), order)
    terminated, truncated = outcome.terminated & mask, outcome.truncated & mask
    last = mask & ~jnp.concatenate([mask[1:], jnp.ones_like(mask[:1])])
    cut = last & ~terminated & ~truncated
    turns = Rollout(
        observation=observation,
        action=action,
        reward=outcome.reward,
        terminated=terminated,
        truncated=(truncated | cut).at[0].max(cut_off),
        next_observation=_along_time(rollout.next_observation, jnp.maximum(outcome.row - 1, 0)),
        extras=extras,
        carry=where(before.exists, rollout.carry.before, rollout.carry.now),
        mask=mask,
        cut=cut,
    )
    return turns, after


class _Outcome(NamedTuple):
    """The outcomes of turns, [T + 1, B]."""

    reward: Array  # f32, the sum up to the outcome, or up to the end of the rollout
    terminated: Array  # bool
    truncated: Array  # bool
    row: Array  # i32, where the outcome shows
    known: Array  # bool, whether it does


def _outcomes(reward: Array, terminated: Array, truncated: Array, next_turn: Array) -> _Outcome:
    """Return the outcome of each row's turn, if it is one, [T + 1, B] each."""

    def back(later: _Outcome, now: _Outcome) -> tuple[_Outcome, _Outcome]:
        rest = later._replace(reward=now.reward + later.reward)
        outcome = where(now.known, now, rest)
        return outcome, outcome

    row = jnp.broadcast_to(jnp.arange(reward.shape[0], dtype=jnp.int32)[:, None], reward.shape)
    known = terminated | truncated | next_turn
    rows = _Outcome(reward=reward, terminated=terminated, truncated=truncated, row=row, known=known)
    beyond = jax.tree.map(lambda x: jnp.zeros_like(x[0]), rows)
    return jax.lax.scan(back, beyond, rows, reverse=True)[1]


def _still_open(is_open: Array, acted: tuple[PyTree, PyTree, PyTree], reward: Array) -> OpenTurn:
    """Return each agent's open turn, at most one of bool[T + 1, B], with its (observation, action, extras)."""
    row = jnp.argmax(is_open, axis=0)[None]
    observation, action, extras, reward = jax.tree.map(lambda x: x[0], _along_time((*acted, reward), row))
    return OpenTurn(
        exists=jnp.any(is_open, axis=0), observation=observation, action=action, extras=extras, reward=reward
    )


def _along_time(tree: PyTree, at: Array) -> PyTree:
    """Return x[at[t, b], b], [T, B, ...], for every x."""
    pick = lambda x: jnp.take_along_axis(x, at.reshape(at.shape + (1,) * (x.ndim - 2)), axis=0)
    return jax.tree.map(pick, tree)
