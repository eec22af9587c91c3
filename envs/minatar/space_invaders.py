"""SpaceInvaders-MinAtar: shoot the aliens before they land."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.minatar.common import FIRE, LEFT, NONE, RIGHT, SIZE, Board, MinAtar, bit, cell, test_bit, union
from purerl.types import Array, number, pytree

_BOTTOM = SIZE - 1
_ROWS, _COLUMNS = 4, 6  # size of a wave
_WAVE = np.uint32(2 ** (_ROWS * _COLUMNS) - 1)
_COLUMN = np.uint32(sum(1 << _COLUMNS * row for row in range(_ROWS)))
_ROW = np.uint32(2**_COLUMNS - 1)
_START_X, _START_Y = 2, 0
_MOVE_INTERVAL, _SHORTEST_INTERVAL = 12, 6  # steps between two moves of a full wave, at the start and at the end
_ALIEN_SHOT_INTERVAL = 10
_SHOT_INTERVAL = 5


class SpaceInvadersState(NamedTuple):
    """The cannon, the aliens as a block of 4 x 6 that moves as one, and the bullets in flight.

    Shots are far enough apart for one bullet of the aliens and two of the cannon; one that is not there has y = -1.
    """

    cannon: Array  # i32[], column in row 9
    aliens: Array  # u32[], bit column + 6 row of the block
    block_x: Array  # i32[], column of the block's left edge
    block_y: Array  # i32[], row of its top
    direction: Array  # i32[], -1 or 1
    bullet_x: Array  # i32[], the cannon's newest bullet
    bullet_y: Array  # i32[]
    older_bullet_x: Array  # i32[], the one before
    older_bullet_y: Array  # i32[]
    alien_bullet_x: Array  # i32[]
    alien_bullet_y: Array  # i32[]
    move_timer: Array  # i32[]
    alien_shot_timer: Array  # i32[]
    shot_timer: Array  # i32[]
    difficulty: Array  # i32[], waves by which the aliens have become faster


@pytree
class SpaceInvaders(MinAtar):
    """Reward 1 per alien; ends when a bullet or an alien reaches the cannon, or an alien would leave the last row.

    Aliens move faster the fewer they are, and with every wave. Channels: cannon, alien, alien moving left, alien moving
    right, the cannon's bullets, the aliens' bullets. No bound on the return.

    Source: Young and Tian (2019), arXiv:1903.03176.
    """

    ramping: bool = number(default=True, doc="each wave moves faster than the one before")

    channels: ClassVar = ("cannon", "alien", "alien_left", "alien_right", "friendly_bullet", "enemy_bullet")
    minimal_actions: ClassVar = (NONE, LEFT, RIGHT, FIRE)

    def _start(self, draws: Array) -> SpaceInvadersState:
        i32 = jnp.int32
        return SpaceInvadersState(
            cannon=i32(5),
            aliens=jnp.uint32(_WAVE),
            block_x=i32(_START_X),
            block_y=i32(_START_Y),
            direction=i32(-1),
            bullet_x=i32(0),
            bullet_y=i32(-1),
            older_bullet_x=i32(0),
            older_bullet_y=i32(-1),
            alien_bullet_x=i32(0),
            alien_bullet_y=i32(-1),
            move_timer=i32(_MOVE_INTERVAL),
            alien_shot_timer=i32(_ALIEN_SHOT_INTERVAL),
            shot_timer=i32(0),
            difficulty=i32(0),
        )

    def _play(self, game: SpaceInvadersState, action: Array, draws: Array) -> tuple[SpaceInvadersState, Array, Array]:
        game = _fly(_act(game, action))
        shot = (game.alien_bullet_y == _BOTTOM) & (game.alien_bullet_x == game.cannon)
        touched = _alien_at(game, game.cannon, _BOTTOM)
        game, landed = _advance_aliens(game)
        touched |= _alien_at(game, game.cannon, _BOTTOM)
        game = _shoot_back(game)
        game, reward = _hit(game)
        game = game._replace(
            shot_timer=jnp.maximum(game.shot_timer - 1, 0),
            move_timer=game.move_timer - 1,
            alien_shot_timer=game.alien_shot_timer - 1,
        )
        return self._next_wave(game), reward, shot | touched | landed

    def _next_wave(self, game: SpaceInvadersState) -> SpaceInvadersState:
        cleared = game.aliens == 0
        faster = cleared & jnp.asarray(self.ramping) & (game.difficulty < _MOVE_INTERVAL - _SHORTEST_INTERVAL)
        return game._replace(
            aliens=jnp.where(cleared, _WAVE, game.aliens),
            block_x=jnp.where(cleared, _START_X, game.block_x),
            block_y=jnp.where(cleared, _START_Y, game.block_y),
            difficulty=game.difficulty + faster.astype(jnp.int32),
        )

    @staticmethod
    def _boards(game: SpaceInvadersState) -> list[Board]:
        aliens = [_aliens_in_row(game, y) for y in range(SIZE)]
        left = game.direction < 0
        return [
            cell(game.cannon, _BOTTOM),
            aliens,
            [jnp.where(left, row, 0) for row in aliens],
            [jnp.where(left, 0, row) for row in aliens],
            union(cell(game.bullet_x, game.bullet_y), cell(game.older_bullet_x, game.older_bullet_y)),
            cell(game.alien_bullet_x, game.alien_bullet_y),
        ]


def _aliens_in_row(game: SpaceInvadersState, y: int) -> Array:
    row = _block_row(game, y)
    aliens = game.aliens >> (_COLUMNS * jnp.clip(row, 0, _ROWS - 1)).astype(jnp.uint32) & _ROW
    # A block whose outer columns are empty can stand over the edge; eight more bits keep the shift positive.
    shifted = aliens << (game.block_x + 8).astype(jnp.uint32) >> jnp.uint32(8)
    return jnp.where(row < _ROWS, shifted, 0)


def _act(game: SpaceInvadersState, action: Array) -> SpaceInvadersState:
    """Fire, or move the cannon."""
    fires = (action == FIRE) & (game.shot_timer == 0)
    step = (action == RIGHT).astype(jnp.int32) - (action == LEFT).astype(jnp.int32)
    return game._replace(
        cannon=jnp.clip(game.cannon + step, 0, SIZE - 1),
        bullet_x=jnp.where(fires, game.cannon, game.bullet_x),
        bullet_y=jnp.where(fires, _BOTTOM, game.bullet_y),
        older_bullet_x=jnp.where(fires, game.bullet_x, game.older_bullet_x),
        older_bullet_y=jnp.where(fires, game.bullet_y, game.older_bullet_y),
        shot_timer=jnp.where(fires, _SHOT_INTERVAL, game.shot_timer),
    )


def _fly(game: SpaceInvadersState) -> SpaceInvadersState:
    """Move the bullets."""
    falls = (game.alien_bullet_y >= 0) & (game.alien_bullet_y < _BOTTOM)
    return game._replace(
        bullet_y=jnp.maximum(game.bullet_y - 1, -1),
        older_bullet_y=jnp.maximum(game.older_bullet_y - 1, -1),
        alien_bullet_y=jnp.where(falls, game.alien_bullet_y + 1, -1),
    )


def _block_row(game: SpaceInvadersState, y: Array | int) -> Array:
    """Return which row of the block is in row `y` of the grid; the block wraps from the last row to the first."""
    row = y - game.block_y
    return jnp.where(row < 0, row + SIZE, row)


def _alien_bit(game: SpaceInvadersState, x: Array, y: Array | int) -> Array:
    """Return u32[]: the bit of the alien at (x, y), or 0 if there is none."""
    column, row = x - game.block_x, _block_row(game, y)
    inside = (column >= 0) & (column < _COLUMNS) & (row < _ROWS)
    return jnp.where(inside, bit(jnp.clip(column + _COLUMNS * row, 0, 31)) & game.aliens, 0)


def _alien_at(game: SpaceInvadersState, x: Array, y: Array | int) -> Array:
    return _alien_bit(game, x, y) != 0


def _advance_aliens(game: SpaceInvadersState) -> tuple[SpaceInvadersState, Array]:
    """Move the aliens when it is time: sideways, or down and back at an edge. Return (game, whether one landed)."""
    moves = game.move_timer == 0
    interval = jnp.minimum(jax.lax.population_count(game.aliens).astype(jnp.int32), _MOVE_INTERVAL - game.difficulty)
    edge = jnp.where(game.direction < 0, 0, SIZE - 1) - game.block_x
    in_edge_column = game.aliens & _COLUMN << jnp.clip(edge, 0, _COLUMNS - 1).astype(jnp.uint32)
    turns = moves & (edge >= 0) & (edge < _COLUMNS) & (in_edge_column != 0)
    in_last_row = game.aliens >> (_COLUMNS * jnp.clip(_BOTTOM - game.block_y, 0, _ROWS)).astype(jnp.uint32) & _ROW
    landed = turns & (in_last_row != 0)
    game = game._replace(
        block_x=jnp.where(moves & ~turns, game.block_x + game.direction, game.block_x),
        block_y=jnp.where(turns, game.block_y + 1, game.block_y),
        direction=jnp.where(turns, -game.direction, game.direction),
        move_timer=jnp.where(moves, interval, game.move_timer),
    )
    return game, landed


def _shoot_back(game: SpaceInvadersState) -> SpaceInvadersState:
    """Let the lowest alien of the column nearest to the cannon shoot when it is time; on a tie, the left column."""
    shoots = game.alien_shot_timer == 0
    nearest = jnp.int32(2**10)
    for column in range(_COLUMNS):
        x = game.block_x + column
        rank = 32 * jnp.abs(x - game.cannon) + column
        alive = (game.aliens & (_COLUMN << np.uint32(column))) != 0
        nearest = jnp.where(alive, jnp.minimum(rank, nearest), nearest)
    column = nearest & 31
    lowest = jnp.int32(-1)
    for row in range(_ROWS):
        y = game.block_y + row
        y = jnp.where(y >= SIZE, y - SIZE, y)
        lowest = jnp.where(test_bit(game.aliens, column + _COLUMNS * row), jnp.maximum(y, lowest), lowest)
    return game._replace(
        alien_bullet_x=jnp.where(shoots, game.block_x + column, game.alien_bullet_x),
        alien_bullet_y=jnp.where(shoots, lowest, game.alien_bullet_y),
        alien_shot_timer=jnp.where(shoots, _ALIEN_SHOT_INTERVAL, game.alien_shot_timer),
    )


def _hit(game: SpaceInvadersState) -> tuple[SpaceInvadersState, Array]:
    """Remove the cannon's bullets that hit an alien, and the aliens; return (game, how many)."""
    struck = _alien_bit(game, game.bullet_x, jnp.maximum(game.bullet_y, 0))
    struck = jnp.where(game.bullet_y >= 0, struck, 0)
    also_struck = _alien_bit(game, game.older_bullet_x, jnp.maximum(game.older_bullet_y, 0))
    also_struck = jnp.where(game.older_bullet_y >= 0, also_struck, 0)
    game = game._replace(
        aliens=game.aliens & ~struck & ~also_struck,
        bullet_y=jnp.where(struck != 0, -1, game.bullet_y),
        older_bullet_y=jnp.where(also_struck != 0, -1, game.older_bullet_y),
    )
    return game, (struck != 0).astype(jnp.int32) + (also_struck != 0).astype(jnp.int32)
