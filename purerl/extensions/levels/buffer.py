r"""A buffer of levels that were played and are worth playing again.

A level is replayed with probability

    P_i = (1 - s) (1 / rank_i)^(1 / T) / sum_j (1 / rank_j)^(1 / T) + s (now - played_i) / sum_j (now - played_j)

where rank 1 has the highest score, T is the temperature, s the weight of staleness, and `played` the update in which a
level was played last. Several levels are sampled without replacement. A new level takes a free slot, or replaces the
level with the lowest score if its own is higher; a level that is already in the buffer is scored again.

Source: Jiang et al. (2021), arXiv:2010.03934.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.types import Array, Key, PyTree


class LevelBuffer(NamedTuple):
    """C slots for levels, the first ones of which are filled."""

    level: PyTree  # [C, ...]
    score: Array  # f32[C], high: much to learn
    best_return: Array  # f32[C], the highest of an episode so far
    played: Array  # i32[C], the update in which it was last
    filled: Array  # i32[], how many places


def empty(level: PyTree, capacity: int) -> LevelBuffer:
    """Return an empty buffer; `level` is an example level, or its shapes and dtypes."""
    zeros = jnp.zeros(capacity, jnp.float32)
    return LevelBuffer(
        level=jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), level),
        score=zeros,
        best_return=zeros,
        played=zeros.astype(jnp.int32),
        filled=jnp.int32(0),
    )


def is_filled(buffer: LevelBuffer) -> Array:
    """Return which slots hold a level, bool[C]."""
    return jnp.arange(buffer.score.shape[0]) < buffer.filled


def mean_score(buffer: LevelBuffer) -> Array:
    """Return the mean score of the levels, f32[]; 0 without levels."""
    total = jnp.sum(jnp.where(is_filled(buffer), buffer.score, 0.0))
    return total / jnp.maximum(buffer.filled, 1).astype(jnp.float32)


def probabilities(buffer: LevelBuffer, now: Array, temperature: Array | float, staleness: Array | float) -> Array:
    """Return each level's probability of being replayed first, f32[C], by the equation above; 0 for empty slots."""
    filled = is_filled(buffer)
    count = buffer.score.shape[0]
    order = jnp.argsort(jnp.where(filled, -buffer.score, jnp.inf))  # stable: among equal scores, the first slot
    rank = jnp.zeros(count, jnp.int32).at[order].set(jnp.arange(1, count + 1))
    by_score = jax.nn.softmax(jnp.where(filled, -jnp.log(rank.astype(jnp.float32)) / temperature, -jnp.inf))
    age = jnp.where(filled, (now - buffer.played).astype(jnp.float32), 0.0)
    total = jnp.sum(age)
    even = filled.astype(jnp.float32) / jnp.maximum(buffer.filled, 1).astype(jnp.float32)
    by_age = jnp.where(total > 0, age / jnp.maximum(total, 1.0), even)
    return jnp.where(filled, (1.0 - staleness) * by_score + staleness * by_age, 0.0)


def draw(
    key: Key, buffer: LevelBuffer, num: int, now: Array, temperature: Array | float, staleness: Array | float
) -> Array:
    """Sample i32[num] different slots to replay, by `probabilities`, without replacement; `num` must be filled."""
    chances = probabilities(buffer, now, temperature, staleness)
    least = jnp.where(is_filled(buffer), 1e-30, 0.0)  # lower bound for filled slots, so that no empty one precedes them
    noise = jax.random.gumbel(key, chances.shape)  # the largest of log p + Gumbel are such a sample
    return jax.lax.top_k(jnp.log(jnp.maximum(chances, least)) + noise, num)[1]


def insert(buffer: LevelBuffer, level: PyTree, score: Array, best_return: Array, now: Array) -> LevelBuffer:
    """Offer the levels that were just played, one after another.

    Args:
      buffer: as it was.
      level: [B, ...].
      score, best_return: f32[B].
      now: i32[], the update.
    """

    def one(buffer: LevelBuffer, offered: tuple[PyTree, Array, Array]) -> tuple[LevelBuffer, None]:
        level, score, best_return = offered
        capacity, filled = buffer.score.shape[0], is_filled(buffer)
        same = filled & _equal(buffer.level, level)
        known, has_room = jnp.any(same), buffer.filled < capacity
        worst = jnp.argmin(jnp.where(filled, buffer.score, jnp.inf))
        place = jnp.where(known, jnp.argmax(same), jnp.where(has_room, buffer.filled, worst))
        best_return = jnp.where(known, jnp.maximum(best_return, buffer.best_return[place]), best_return)
        takes = known | has_room | (score > buffer.score[place])
        place = jnp.where(takes, place, capacity)  # beyond the end: dropped
        put = lambda xs, x: xs.at[place].set(x, mode="drop")
        new = LevelBuffer(
            level=jax.tree.map(put, buffer.level, level),
            score=put(buffer.score, score),
            best_return=put(buffer.best_return, best_return),
            played=put(buffer.played, now),
            filled=buffer.filled + (~known & has_room).astype(jnp.int32),
        )
        return new, None

    return jax.lax.scan(one, buffer, (level, score, best_return))[0]


def rescore(buffer: LevelBuffer, place: Array, score: Array, best_return: Array, now: Array) -> LevelBuffer:
    """Update the scores of replayed levels: i32[B] different slots, f32[B] scores; the higher return is kept."""
    return buffer._replace(
        score=buffer.score.at[place].set(score),
        best_return=buffer.best_return.at[place].max(best_return),
        played=buffer.played.at[place].set(now),
    )


def _equal(levels: PyTree, level: PyTree) -> Array:
    """Return which of the levels [C, ...] equal one level, bool[C]."""
    same = [
        jnp.all((xs == x).reshape(xs.shape[0], -1), axis=1)
        for xs, x in zip(jax.tree.leaves(levels), jax.tree.leaves(level), strict=True)
    ]
    return jnp.all(jnp.stack(same), axis=0)
