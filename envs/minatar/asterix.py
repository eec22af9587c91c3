"""Asterix-MinAtar: collect gold and avoid the enemies that cross the grid."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from purerl.envs.minatar import nibbles
from purerl.envs.minatar.common import (
    DOWN,
    FULL_ROW,
    LEFT,
    NONE,
    RIGHT,
    SIZE,
    UP,
    Board,
    MinAtar,
    alone,
    cell,
    from_lanes,
)
from purerl.types import Array, number, pytree

_SPAWN_INTERVAL = 10  # steps between two new entities, at the start
_MOVE_INTERVAL = 5  # steps between two moves of all entities, at the start
_RAMP_INTERVAL = 100
_LAST_RAMP = 9  # both intervals are 1 from here on


class AsterixState(NamedTuple):
    """The player and eight slots for entities: slot i, the i-th nibble of each word, is in row i + 1."""

    player_x: Array  # i32[]
    player_y: Array  # i32[]
    present: Array  # u32[], 1 in the nibbles of slots in use
    x: Array  # u32[], columns
    right: Array  # u32[], 1 in the nibbles of entities that move right
    gold: Array  # u32[], 1 in the nibbles of gold; the others are enemies
    spawn_timer: Array  # i32[]
    move_timer: Array  # i32[]
    ramp_timer: Array  # i32[]
    difficulty: Array  # i32[], ramps so far


@pytree
class Asterix(MinAtar):
    """Reward 1 per gold; ends when the player meets an enemy; entities come and move faster with time.

    Channels: player, enemy, the trail behind enemies and gold, gold. No bound on the return.

    Source: Young and Tian (2019), arXiv:1903.03176.
    """

    ramping: bool = number(default=True, doc="entities come and move faster with time")

    channels: ClassVar = ("player", "enemy", "trail", "gold")
    minimal_actions: ClassVar = (NONE, LEFT, UP, RIGHT, DOWN)
    num_draws: ClassVar = 3  # direction, kind, slot

    def _start(self, draws: Array) -> AsterixState:
        i32, none = jnp.int32, jnp.uint32(0)
        return AsterixState(
            player_x=i32(5),
            player_y=i32(5),
            present=none,
            x=none,
            right=none,
            gold=none,
            spawn_timer=i32(_SPAWN_INTERVAL),
            move_timer=i32(_MOVE_INTERVAL),
            ramp_timer=i32(_RAMP_INTERVAL),
            difficulty=i32(0),
        )

    def _play(self, game: AsterixState, action: Array, draws: Array) -> tuple[AsterixState, Array, Array]:
        spawn_interval = jnp.maximum(_SPAWN_INTERVAL - game.difficulty, 1)
        move_interval = jnp.maximum(_MOVE_INTERVAL - game.difficulty // 2, 1)
        spawns = game.spawn_timer == 0
        game = alone(_spawn, game, draws, spawns)
        step_x = (action == RIGHT).astype(jnp.int32) - (action == LEFT).astype(jnp.int32)
        step_y = (action == DOWN).astype(jnp.int32) - (action == UP).astype(jnp.int32)
        game = game._replace(
            player_x=jnp.clip(game.player_x + step_x, 0, SIZE - 1),
            player_y=jnp.clip(game.player_y + step_y, 1, SIZE - 2),
        )
        game, gold_before, enemy_before = alone(_meet, game)
        moves = game.move_timer == 0
        game = _move(game, moves)
        game, gold_after, enemy_after = _meet(game)
        game = game._replace(
            spawn_timer=jnp.where(spawns, spawn_interval, game.spawn_timer) - 1,
            move_timer=jnp.where(moves, move_interval, game.move_timer) - 1,
        )
        reward = gold_before.astype(jnp.int32) + gold_after.astype(jnp.int32)
        return self._ramp(game), reward, enemy_before | enemy_after

    def _ramp(self, game: AsterixState) -> AsterixState:
        active = jnp.asarray(self.ramping) & (game.difficulty < _LAST_RAMP)
        ramps = active & (game.ramp_timer < 0)
        waits = active & (game.ramp_timer >= 0)
        ramp_timer = jnp.where(ramps, _RAMP_INTERVAL, game.ramp_timer - waits.astype(jnp.int32))
        return game._replace(ramp_timer=ramp_timer, difficulty=game.difficulty + ramps.astype(jnp.int32))

    @staticmethod
    def _boards(game: AsterixState) -> list[Board]:
        enemies, trails, golds = [], [], []
        for x, present, right, gold in zip(
            *map(nibbles.unpack, (game.x, game.present, game.right, game.gold)), strict=True
        ):
            mark = present.astype(jnp.uint32) << x.astype(jnp.uint32)
            enemies.append(jnp.where(gold != 0, 0, mark))
            golds.append(jnp.where(gold != 0, mark, 0))
            trails.append(jnp.where(right != 0, mark >> jnp.uint32(1), mark << jnp.uint32(1) & FULL_ROW))
        return [cell(game.player_x, game.player_y), *map(from_lanes, (enemies, trails, golds))]


def _spawn(game: AsterixState, draws: Array, spawns: Array) -> AsterixState:
    """Put a new entity into a random free slot, if there is one."""
    free = ~game.present & nibbles.ONES
    rank = jnp.floor(draws[2] * nibbles.total(free).astype(jnp.float32)).astype(jnp.uint32)
    slot = jnp.where(spawns, nibbles.select(free, rank), jnp.uint32(0))
    fifteens = slot * jnp.uint32(15)
    from_left, is_gold = draws[0] < 0.5, draws[1] < 1 / 3
    put = lambda word, value: word & ~fifteens | slot * value
    return game._replace(
        present=game.present | slot,
        x=put(game.x, jnp.where(from_left, jnp.uint32(0), jnp.uint32(SIZE - 1))),
        right=put(game.right, from_left.astype(jnp.uint32)),
        gold=put(game.gold, is_gold.astype(jnp.uint32)),
    )


def _meet(game: AsterixState) -> tuple[AsterixState, Array, Array]:
    """Return (game without the gold in the player's cell, whether there was any, whether an enemy is there)."""
    slot = jnp.uint32(1) << (4 * (game.player_y - 1)).astype(jnp.uint32)
    here = slot & game.present & nibbles.equal(game.x, game.player_x.astype(jnp.uint32))
    gold = here & game.gold
    return game._replace(present=game.present & ~gold), gold != 0, (here & ~game.gold) != 0


def _move(game: AsterixState, moves: Array) -> AsterixState:
    """Move every entity by one cell, and remove those that leave the grid."""
    last = jnp.uint32(SIZE - 1)
    off = game.right & nibbles.equal(game.x, last) | ~game.right & nibbles.equal(game.x, jnp.uint32(0))
    present = game.present & ~off
    x = game.x + (present & game.right) - (present & ~game.right)
    return game._replace(present=jnp.where(moves, present, game.present), x=jnp.where(moves, x, game.x))
