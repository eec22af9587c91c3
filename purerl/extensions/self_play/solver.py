"""A solver of small turn-based games: it visits every position, and computes values from the ends of the game."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError
from purerl.prng import fast
from purerl.types import Array, Key
from purerl.wrappers import Player, Situations
from purerl.wrappers.situations import Situation, legal_actions

MOST_POSITIONS = 10_000
BATCH = 512  # positions that are left at once
STARTS = 8  # that must be the same


class Solution(NamedTuple):
    """The outcome of perfect play, for each position in which a player moves."""

    seen: np.ndarray  # u8[N, bytes], what the mover observes
    worth: np.ndarray  # f32[N], the sum of the mover's rewards if both sides play perfectly from there
    best: np.ndarray  # bool[N, actions], the moves that reach it


class _Moves(NamedTuple):
    """The moves out of some positions, [positions, actions], on the device or in NumPy."""

    reward: Any  # f32, the mover's
    done: Any  # bool
    legal: Any  # bool
    sign: Any  # f32, -1 where the other side moves next, +1 where the mover does again
    after: Any  # u8[..., bytes], what the next mover observes


def solve(game: Situations, key: Key, most: int = MOST_POSITIONS) -> Solution:
    r"""Visit every position that can be reached, then repeat

        V(s) = max_a r(s, a) + (+-) V(s'),     "-" where the other side moves in s'

    until nothing changes. A position is the observation of the side to move: the game hides nothing.

    Args:
      game: a turn-based game of two players.
      key: a key for the start.
      most: positions.

    Raises:
      InputError: if there are more positions, or starts or moves are random.
    """
    numbers, moves = _visited(game, key, most)
    following = np.zeros(moves.legal.shape, int)
    inner = moves.legal & ~moves.done
    following[inner] = [numbers[name.tobytes()] for name in moves.after[inner]]
    worth, each = np.zeros(len(numbers), np.float32), moves.reward
    for _ in range(len(numbers) + 1):
        each = moves.reward + np.where(inner, moves.sign * worth[following], 0.0)
        each = np.where(moves.legal, each, -np.inf)
        before, worth = worth, each.max(axis=1).astype(np.float32)
        if np.array_equal(before, worth):
            break
    seen = np.stack([np.frombuffer(name, np.uint8) for name in numbers])
    return Solution(seen=seen, worth=worth, best=each >= worth[:, None])


def _visited(game: Situations, key: Key, most: int) -> tuple[dict[bytes, int], _Moves]:
    """Return ({observation of the player to move: number} of every reachable position, the moves out of them)."""
    leave = jax.jit(lambda key, some: jax.vmap(partial(_moves, game))(jax.random.split(key, BATCH), some))
    look = jax.jit(jax.vmap(_bytes))
    starts = jax.device_get(jax.jit(jax.vmap(game.reset))(jax.random.split(fast(key), STARTS))[0])
    numbers = {name.tobytes(): 0 for name in np.asarray(look(starts))}
    if len(numbers) > 1:
        raise InputError("`perfect` only supports deterministic games with a fixed starting position")
    frontier, left = jax.tree.map(lambda x: x[:1], starts), []
    while len(frontier.side):
        found = []
        for begin in range(0, len(frontier.side), BATCH):
            batch = jax.tree.map(lambda x, begin=begin: x[begin : begin + BATCH], frontier)
            size = len(batch.side)
            padded = jax.tree.map(lambda x, size=size: jnp.concatenate([x, x[:1].repeat(BATCH - size, 0)]), batch)
            (after, moves), (_, others) = (jax.device_get(leave(fast(jax.random.key(n)), padded)) for n in (0, 1))
            moves, others = (jax.tree.map(lambda x, size=size: x[:size], each) for each in (moves, others))
            if not all(np.array_equal(x[moves.legal], y[moves.legal]) for x, y in zip(moves, others, strict=True)):
                raise InputError("`perfect` only supports deterministic games with a fixed starting position")
            left.append(moves)
            for place in np.argwhere(moves.legal & ~moves.done):
                name = moves.after[tuple(place)].tobytes()
                if name not in numbers:
                    numbers[name] = len(numbers)
                    found.append(jax.tree.map(lambda x, place=tuple(place): x[place], after))
            if len(numbers) > most:
                raise InputError(f"`perfect` only supports games with at most {most:,} positions; this one has more")
        frontier = jax.tree.map(lambda *x: np.stack(x), *found) if found else frontier._replace(side=np.zeros(0))
    return numbers, jax.tree.map(lambda *x: np.concatenate(x), *left)


def perfect(solution: Solution) -> Player:
    """Return the player of a solution's best moves, sampled uniformly if there are several."""
    random = np.random.default_rng(0)
    while True:
        factors = random.integers(0, 2**32, solution.seen.shape[1], dtype=np.uint32)
        hashes = np.asarray(np.sum(solution.seen * factors, axis=1, dtype=np.uint32))
        if len(set(hashes.tolist())) == len(hashes):
            break
    order = np.argsort(hashes)
    hashes, best = hashes[order], solution.best[order]

    def move(game: Situations, key: Key, situation: Situation) -> Array:
        seen = _bytes(situation).astype(jnp.uint32)
        place = jnp.searchsorted(jnp.asarray(hashes), jnp.sum(seen * factors, dtype=jnp.uint32))
        good = jnp.asarray(best)[place]
        return jax.random.categorical(key, jnp.where(good, 0.0, -jnp.inf)).astype(jnp.int32)

    return move


def _moves(game: Situations, key: Key, situation: Situation) -> tuple[Situation, _Moves]:
    """Return the situations after every action, and the moves."""
    actions = jnp.arange(game.action_space.n, dtype=jnp.int32)  # type: ignore[attr-defined]
    keys = jax.random.split(key, actions.shape[0])
    moved = jax.vmap(lambda key, action: game.model(key, situation, action))(keys, actions)
    after = moved.observation
    sign = jnp.where(after.side == situation.side, 1.0, -1.0)
    legal = jnp.broadcast_to(legal_actions(situation), actions.shape)
    found = _Moves(reward=moved.reward, done=moved.done, legal=legal, sign=sign, after=jax.vmap(_bytes)(after))
    return after, found


def _bytes(situation: Situation) -> Array:
    """Return the mover's observation as u8[bytes]."""
    leaves: list[Any] = jax.tree.leaves(situation.observation)
    bytes_of = lambda x: x if x.dtype == bool else jax.lax.bitcast_convert_type(x, jnp.uint8)
    return jnp.concatenate([bytes_of(x).ravel().astype(jnp.uint8) for x in leaves])
