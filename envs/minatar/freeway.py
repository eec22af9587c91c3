"""Freeway-MinAtar: lead a chicken across eight lanes of traffic, again and again."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from purerl.envs.minatar import nibbles
from purerl.envs.minatar.common import DOWN, NONE, SIZE, UP, Board, MinAtar, bit, cell, from_lanes
from purerl.types import Array, pytree

_CHICKEN_X = 4
_BOTTOM = SIZE - 1
_MOVE_INTERVAL = 3  # steps between two moves of the chicken
_TIME = 2500
_LANES = 8
_SPEEDS = 5


class FreewayState(NamedTuple):
    """The chicken and eight cars: car i, the i-th nibble of each word, is in row i + 1."""

    chicken_y: Array  # i32[]
    move_timer: Array  # i32[], steps until the chicken can move
    clock: Array  # i32[], steps left, less one
    x: Array  # u32[], columns of the cars
    right: Array  # u32[], 1 in the nibbles of cars that drive right
    speed: Array  # u32[], 1 (fast) .. 5: a car moves every speed + 1 steps
    timer: Array  # u32[], steps until each car moves


@pytree
class Freeway(MinAtar):
    """Reward 1 per crossing; a car sends the chicken back to the start; ends with step 2501.

    Each crossing samples new speeds and directions. Channels: chicken, car, and per speed the trail behind the cars.

    Source: Young and Tian (2019), arXiv:1903.03176.
    """

    channels: ClassVar = ("chicken", "car", "speed1", "speed2", "speed3", "speed4", "speed5")
    minimal_actions: ClassVar = (NONE, UP, DOWN)
    num_start_draws: ClassVar = _LANES
    num_draws: ClassVar = _LANES

    def _start(self, draws: Array) -> FreewayState:
        right, speed = _draw_cars(draws)
        i32 = jnp.int32
        return FreewayState(
            chicken_y=i32(_BOTTOM),
            move_timer=i32(_MOVE_INTERVAL),
            clock=i32(_TIME),
            x=jnp.uint32(0),
            right=right,
            speed=speed,
            timer=speed,
        )

    def _play(self, game: FreewayState, action: Array, draws: Array) -> tuple[FreewayState, Array, Array]:
        step = (action == DOWN).astype(jnp.int32) - (action == UP).astype(jnp.int32)
        moves = (step != 0) & (game.move_timer == 0)
        chicken_y = jnp.where(moves, jnp.clip(game.chicken_y + step, 0, _BOTTOM), game.chicken_y)
        move_timer = jnp.where(moves, _MOVE_INTERVAL, game.move_timer)

        crossed = chicken_y == 0
        new_right, new_speed = _draw_cars(draws)
        right = jnp.where(crossed, new_right, game.right)
        speed = jnp.where(crossed, new_speed, game.speed)
        timer = jnp.where(crossed, new_speed, game.timer)
        x, timer = _drive(game.x, right, speed, timer)

        lane = (4 * jnp.clip(chicken_y - 1, 0, _LANES - 1)).astype(jnp.uint32)
        in_column = lambda columns: ((columns >> lane) & jnp.uint32(15)) == _CHICKEN_X
        hit = (chicken_y >= 1) & (chicken_y <= _LANES) & (in_column(game.x) | in_column(x))
        chicken_y = jnp.where(crossed | hit, _BOTTOM, chicken_y)
        clock = game.clock - 1
        game = FreewayState(
            chicken_y=chicken_y,
            move_timer=jnp.maximum(move_timer - 1, 0),
            clock=clock,
            x=x,
            right=right,
            speed=speed,
            timer=timer,
        )
        return game, crossed.astype(jnp.int32), clock < 0

    @staticmethod
    def _boards(game: FreewayState) -> list[Board]:
        cars, trails = [], [[] for _ in range(_SPEEDS)]
        for x, right, speed in zip(*map(nibbles.unpack, (game.x, game.right, game.speed)), strict=True):
            car = bit(x)
            left_of = jnp.where(x == 0, bit(jnp.int32(SIZE - 1)), car >> jnp.uint32(1))
            right_of = jnp.where(x == SIZE - 1, jnp.uint32(1), car << jnp.uint32(1))
            behind = jnp.where(right != 0, left_of, right_of)
            cars.append(car)
            for number, trail in enumerate(trails, start=1):
                trail.append(jnp.where(speed == number, behind, jnp.uint32(0)))
        chicken = cell(jnp.int32(_CHICKEN_X), game.chicken_y)
        return [chicken, from_lanes(cars), *map(from_lanes, trails)]


def _draw_cars(draws: Array) -> tuple[Array, Array]:
    """Return (right, speed) of cars; one random number per car decides both."""
    choice = jnp.floor(draws * (2 * _SPEEDS)).astype(jnp.uint32)
    right = choice >= _SPEEDS
    speed = jnp.where(right, choice - jnp.uint32(_SPEEDS), choice) + jnp.uint32(1)
    return nibbles.pack(right.astype(jnp.uint32)), nibbles.pack(speed)


def _drive(x: Array, right: Array, speed: Array, timer: Array) -> tuple[Array, Array]:
    """Return (x, timer): cars whose timer is 0 move one cell, wrapping around, and reset it to their speed."""
    moving = nibbles.is_zero(timer)
    moving_right, moving_left = moving & right, moving & ~right
    wraps_right = moving_right & nibbles.equal(x, jnp.uint32(SIZE - 1))
    wraps_left = moving_left & nibbles.equal(x, jnp.uint32(0))
    last = jnp.uint32(SIZE - 1)
    x = x + (moving_right & ~wraps_right) - (moving_left & ~wraps_left) + last * wraps_left - last * wraps_right
    return x, timer - (nibbles.ONES & ~moving) + (speed & moving * jnp.uint32(15))
