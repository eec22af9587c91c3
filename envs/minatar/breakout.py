"""Breakout-MinAtar: knock bricks out of a wall with a ball that must not pass the paddle."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from purerl.envs.minatar.common import FULL_ROW, LEFT, NONE, RIGHT, SIZE, Board, MinAtar, cell, test_bit
from purerl.types import Array, pytree

_TOP, _BOTTOM = 1, 3  # rows of the wall
_WALL = np.uint32(2 ** (SIZE * (_BOTTOM - _TOP + 1)) - 1)


class BreakoutState(NamedTuple):
    """The paddle, the ball and the wall."""

    paddle: Array  # i32[], column in row 9
    ball_x: Array  # i32[]
    ball_y: Array  # i32[]
    direction_x: Array  # i32[], -1 or 1
    direction_y: Array  # i32[], -1 or 1
    last_x: Array  # i32[], where the ball was a step ago
    last_y: Array  # i32[]
    bricks: Array  # u32[], bit x + 10 (y - 1) for the brick at (x, y)
    struck: Array  # bool[], a brick was hit in the last step: the next one is passed


@pytree
class Breakout(MinAtar):
    """Reward 1 per brick; a cleared wall is rebuilt when the ball comes down; ends when the ball is lost.

    The ball moves one cell diagonally per step. Channels: paddle, ball, its trail, bricks. No bound on the return.

    Source: Young and Tian (2019), arXiv:1903.03176.
    """

    channels: ClassVar = ("paddle", "ball", "trail", "brick")
    minimal_actions: ClassVar = (NONE, LEFT, RIGHT)
    num_start_draws: ClassVar = 1

    def _start(self, draws: Array) -> BreakoutState:
        right = draws[0] >= 0.5
        x = jnp.where(right, SIZE - 1, 0)
        direction_x = jnp.where(right, -1, 1)
        wall, clear = jnp.uint32(_WALL), jnp.zeros((), bool)
        return BreakoutState(
            paddle=jnp.int32(4),
            ball_x=x,
            ball_y=jnp.int32(3),
            direction_x=direction_x,
            direction_y=jnp.int32(1),
            last_x=x,
            last_y=jnp.int32(3),
            bricks=wall,
            struck=clear,
        )

    def _play(self, game: BreakoutState, action: Array, draws: Array) -> tuple[BreakoutState, Array, Array]:
        step = (action == RIGHT).astype(jnp.int32) - (action == LEFT).astype(jnp.int32)
        paddle = jnp.clip(game.paddle + step, 0, SIZE - 1)
        x, y = game.ball_x + game.direction_x, game.ball_y + game.direction_y
        at_side = (x < 0) | (x >= SIZE)
        x = jnp.where(at_side, game.ball_x, x)
        direction_x = jnp.where(at_side, -game.direction_x, game.direction_x)

        at_top = y < 0
        index = jnp.clip(x + SIZE * (y - _TOP), 0, 31)
        at_brick = (y >= _TOP) & (y <= _BOTTOM) & test_bit(game.bricks, index)
        strikes = at_brick & ~game.struck
        bricks = jnp.where(strikes, game.bricks & ~(jnp.uint32(1) << index.astype(jnp.uint32)), game.bricks)

        at_bottom = y == SIZE - 1
        bricks = jnp.where(at_bottom & (bricks == 0), _WALL, bricks)
        met = at_bottom & (game.ball_x == paddle)
        met_ahead = at_bottom & ~met & (x == paddle)
        back = strikes | met | met_ahead
        game = BreakoutState(
            paddle=paddle,
            ball_x=x,
            ball_y=jnp.where(at_top, 0, jnp.where(back, game.ball_y, y)),
            direction_x=jnp.where(met_ahead, -direction_x, direction_x),
            direction_y=jnp.where(at_top | back, -game.direction_y, game.direction_y),
            last_x=game.ball_x,
            last_y=game.ball_y,
            bricks=bricks,
            struck=at_brick,
        )
        return game, strikes.astype(jnp.int32), at_bottom & ~met & ~met_ahead

    @staticmethod
    def _boards(game: BreakoutState) -> list[Board]:
        none = [jnp.uint32(0)] * SIZE
        wall = [game.bricks >> jnp.uint32(SIZE * row) & FULL_ROW for row in range(_BOTTOM - _TOP + 1)]
        return [
            cell(game.paddle, SIZE - 1),
            cell(game.ball_x, game.ball_y),
            cell(game.last_x, game.last_y),
            none[:_TOP] + wall + none[_BOTTOM + 1 :],
        ]
