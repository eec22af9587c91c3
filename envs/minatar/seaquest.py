"""Seaquest-MinAtar: shoot fish and submarines, rescue divers, and surface before the oxygen runs out."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.minatar.common import (
    DOWN,
    FIRE,
    LEFT,
    NONE,
    RIGHT,
    SIZE,
    UP,
    Board,
    MinAtar,
    alone,
    bit,
    cell,
    from_lanes,
    union,
)
from purerl.types import Array, number, pytree

_LANES = 8  # rows 1 .. 8, in which enemies and divers swim
_SPAWN_INTERVAL = 20  # steps between two enemies, at the start
_MOVE_INTERVAL, _SHORTEST_MOVE_INTERVAL = 5, 2
_LAST_RAMP = 19  # the intervals are shortest from here on
_DIVER_INTERVAL, _DIVER_MOVE_INTERVAL = 30, 5
_SHOT_INTERVAL = 5
_SUB_SHOT_INTERVAL = 10
_PERIOD = _SUB_SHOT_INTERVAL + 1  # steps between two shots of a submarine
_OXYGEN = 200
_OXYGEN_PER_CELL = 20
_CREW = 6  # divers that can be aboard

_FIELD = np.uint32(2**SIZE - 1)  # the cells of a row
_LOWEST = np.uint32(1 | 1 << SIZE | 1 << 2 * SIZE)  # the first cell of each of the three fields of a word
_FIELDS = np.uint32(2 ** (3 * SIZE) - 1)


class Swimmer(NamedTuple):
    """A bullet of the player or a diver; x = -1 if there is none."""

    x: Array  # i32[]
    y: Array  # i32[]
    right: Array  # bool[], where it swims
    timer: Array  # i32[], steps until a diver moves; 0 for a bullet


class SeaquestState(NamedTuple):
    """The player and everything that swims. Boards are u32[8], rows 1 .. 8, bit x for column x.

    All fish and submarines of a row swim the same way, and no two share row, column and move timer. So they are kept as
    boards by move timer, [6, 8], of words with three fields of ten cells: `enemies` holds who is there, who is a
    submarine, and bit 0 of when it shoots; `phases` holds bits 1, 2, 3 of it. A submarine shoots when the clock equals
    that number.
    """

    x: Array  # i32[]
    y: Array  # i32[], 0 at the surface
    right: Array  # bool[], the player faces right
    oxygen: Array  # i32[]
    divers_aboard: Array  # i32[], can be negative
    surfaced: Array  # bool[]
    bullets: tuple[Swimmer, Swimmer]  # newest first
    divers: tuple[Swimmer, Swimmer]  # oldest first
    enemies: Array  # u32[6, 8]
    phases: Array  # u32[6, 8]
    lane_right: Array  # bool[8], where the enemies of a row swim
    bullets_left: Array  # u32[8], bullets of submarines
    bullets_right: Array  # u32[8]
    clock: Array  # i32[], steps modulo 11
    spawn_timer: Array  # i32[]
    diver_timer: Array  # i32[]
    shot_timer: Array  # i32[]
    difficulty: Array  # i32[], ramps so far


@pytree
class Seaquest(MinAtar):
    """Reward 1 per enemy shot, and 1 per 20 oxygen left when surfacing with six divers.

    Ends when an enemy or its bullet meets the player, without oxygen, or on surfacing without a diver. Enemies come and
    move faster with each surfacing. Channels: front and back of the player, its bullets, the trail behind swimmers,
    enemy bullets, fish, submarines, gauges of oxygen and of divers aboard, divers. No bound on the return.

    Source: Young and Tian (2019), arXiv:1903.03176.
    """

    ramping: bool = number(default=True, doc="enemies come and move faster with each surfacing")

    channels: ClassVar = (
        "sub_front",
        "sub_back",
        "friendly_bullet",
        "trail",
        "enemy_bullet",
        "enemy_fish",
        "enemy_sub",
        "oxygen_gauge",
        "diver_gauge",
        "diver",
    )
    minimal_actions: ClassVar = (NONE, LEFT, UP, RIGHT, DOWN, FIRE)
    num_draws: ClassVar = 5  # an enemy's direction, kind and row; a diver's direction and row

    def _start(self, draws: Array) -> SeaquestState:
        i32, no = jnp.int32, jnp.zeros((), bool)
        nobody = Swimmer(x=i32(-1), y=i32(0), right=no, timer=i32(0))
        boards = jnp.zeros((_MOVE_INTERVAL + 1, _LANES), jnp.uint32)
        lanes = jnp.zeros(_LANES, jnp.uint32)
        return SeaquestState(
            x=i32(5),
            y=i32(0),
            right=no,
            oxygen=i32(_OXYGEN),
            divers_aboard=i32(0),
            surfaced=jnp.ones((), bool),
            bullets=(nobody, nobody),
            divers=(nobody, nobody),
            enemies=boards,
            phases=boards,
            lane_right=jnp.zeros(_LANES, bool),
            bullets_left=lanes,
            bullets_right=lanes,
            clock=i32(0),
            spawn_timer=i32(_SPAWN_INTERVAL),
            diver_timer=i32(_DIVER_INTERVAL),
            shot_timer=i32(0),
            difficulty=i32(0),
        )

    def _play(self, game: SeaquestState, action: Array, draws: Array) -> tuple[SeaquestState, Array, Array]:
        game = alone(_spawn_enemy, game, draws[:3])
        game = alone(_spawn_diver, game, draws[3:])
        game = _act(game, action)
        game, shot = alone(_fly, game)
        game = alone(_swim_divers, game)
        game, rammed, met = alone(_swim_enemies, game)
        game, wounded = _fly_enemy_bullets(game)
        game = game._replace(
            clock=jnp.where(game.clock == _PERIOD - 1, 0, game.clock + 1),
            spawn_timer=jnp.maximum(game.spawn_timer - 1, 0),
            diver_timer=jnp.maximum(game.diver_timer - 1, 0),
            shot_timer=jnp.maximum(game.shot_timer - 1, 0),
        )
        game, bonus, drowned = self._breathe(game)
        return game, shot + rammed + bonus, met | wounded | drowned

    def _breathe(self, game: SeaquestState) -> tuple[SeaquestState, Array, Array]:
        """Use oxygen under water; refill it and unload divers at the surface. Return (game, reward, ends)."""
        under_water = game.y > 0
        arrives = ~under_water & ~game.surfaced
        surfaces = arrives & (game.divers_aboard != 0)
        ends = (game.oxygen <= 0) | (arrives & (game.divers_aboard == 0))
        rescues = surfaces & (game.divers_aboard == _CREW)
        bonus = jnp.where(rescues, game.oxygen // _OXYGEN_PER_CELL, 0)
        aboard = jnp.where(rescues, 0, game.divers_aboard) - surfaces.astype(jnp.int32)
        ramps = surfaces & jnp.asarray(self.ramping) & (game.difficulty < _LAST_RAMP)
        game = game._replace(
            oxygen=jnp.where(surfaces, _OXYGEN, game.oxygen - under_water.astype(jnp.int32)),
            surfaced=surfaces | (game.surfaced & ~under_water),
            divers_aboard=aboard,
            difficulty=game.difficulty + ramps.astype(jnp.int32),
        )
        return game, bonus, ends

    @staticmethod
    def _boards(game: SeaquestState) -> list[Board]:
        bullets, divers = game.bullets, game.divers
        enemies = _union(game.enemies)
        subs = enemies >> jnp.uint32(SIZE) & _FIELD
        present = enemies & _FIELD
        behind = jnp.where(game.lane_right, present >> jnp.uint32(1), present << jnp.uint32(1) & _FIELD)
        trails = [cell(jnp.where(diver.right, diver.x - 1, diver.x + 1), diver.y, diver.x >= 0) for diver in divers]
        oxygen = bit(jnp.maximum(game.oxygen, 0) // _OXYGEN_PER_CELL) - jnp.uint32(1)
        aboard = jnp.clip(game.divers_aboard, 0, _CREW)
        gauge = (bit(aboard) - jnp.uint32(1)) << (SIZE - 1 - aboard).astype(jnp.uint32)
        above = [jnp.uint32(0)] * (SIZE - 1)
        return [
            cell(game.x, game.y),
            cell(jnp.where(game.right, game.x - 1, game.x + 1), game.y),
            union(cell(bullets[0].x, bullets[0].y), cell(bullets[1].x, bullets[1].y)),
            union(_grid(behind), *trails),
            _grid(game.bullets_left | game.bullets_right),
            _grid(_fish(game.enemies)),  # a cell can hold a fish and a submarine, of different move timers
            _grid(subs),
            [*above, oxygen],
            [*above, gauge],
            union(cell(divers[0].x, divers[0].y), cell(divers[1].x, divers[1].y)),
        ]


def _union(words: Array) -> Array:
    """Return u32[8]: the words of all move timers combined."""
    return words[0] | words[1] | words[2] | words[3] | words[4] | words[5]


def _fish(words: Array) -> Array:
    """Return u32[8]: the board of all fish."""
    return _union(words & ~(words >> jnp.uint32(SIZE)) & _FIELD)


def _grid(rows: Array) -> Board:
    """Return the board of u32[8], the rows 1 .. 8."""
    return from_lanes([rows[lane] for lane in range(_LANES)])


def _lane(x: Array, y: Array, present: Array | bool = True) -> Array:
    """Return u32[8]: a board with one cell set, or an empty one if not `present` or not in rows 1 .. 8."""
    inside = (x >= 0) & (x < SIZE) & present
    return jnp.where((jnp.arange(1, _LANES + 1) == y) & inside, bit(jnp.clip(x, 0, SIZE - 1)), jnp.uint32(0))


def _any(board: Array) -> Array:
    return jnp.any(board != 0)


def _count(board: Array) -> Array:
    return jnp.sum(jax.lax.population_count(board).astype(jnp.int32))


def _spread(board: Array) -> Array:
    """Return the words in which the cells of `board` are set in all three fields."""
    return board * _LOWEST


def _row_drawn(draw: Array) -> Array:
    return 1 + jnp.floor(draw * _LANES).astype(jnp.int32)


def _move_interval(game: SeaquestState) -> Array:
    return jnp.maximum(_MOVE_INTERVAL - game.difficulty // 2, _SHORTEST_MOVE_INTERVAL)


def _spawn_enemy(game: SeaquestState, draws: Array) -> SeaquestState:
    """Let a fish or a submarine in when it is time, unless those of its row swim the other way."""
    spawns = game.spawn_timer == 0
    right, is_sub, y = draws[0] < 0.5, draws[1] < 1 / 3, _row_drawn(draws[2])
    spawn_interval = jnp.maximum(_SPAWN_INTERVAL - game.difficulty, 1)
    chosen = spawns & (jnp.arange(1, _LANES + 1) == y)
    opposed = (_union(game.enemies) != 0) & (game.lane_right != right)
    place = jnp.where(chosen & ~opposed, jnp.where(right, jnp.uint32(1), bit(jnp.int32(SIZE - 1))), 0)
    phase = game.clock + _SUB_SHOT_INTERVAL
    phase = jnp.where(phase >= _PERIOD, phase - _PERIOD, phase).astype(jnp.uint32)
    sub = is_sub.astype(jnp.uint32)
    digit = lambda i: phase >> jnp.uint32(i) & jnp.uint32(1)
    field = lambda i: jnp.uint32(SIZE * i)
    enemy_word = place | place * sub << field(1) | place * (sub * digit(0)) << field(2)
    phase_word = place * (sub * digit(1)) | place * (sub * digit(2)) << field(1) | place * (sub * digit(3)) << field(2)
    fresh = (jnp.arange(_MOVE_INTERVAL + 1) == _move_interval(game))[:, None]
    return game._replace(
        enemies=game.enemies | jnp.where(fresh, enemy_word, 0),
        phases=game.phases | jnp.where(fresh, phase_word, 0),
        lane_right=jnp.where(chosen & ~opposed, right, game.lane_right),
        spawn_timer=jnp.where(spawns, spawn_interval, game.spawn_timer),
    )


def _choose(condition: Array, on_true: Swimmer, on_false: Swimmer) -> Swimmer:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), on_true, on_false)


def _spawn_diver(game: SeaquestState, draws: Array) -> SeaquestState:
    """Let a diver in when it is time."""
    spawns = game.diver_timer == 0
    right = draws[0] < 0.5
    diver = Swimmer(
        x=jnp.where(right, 0, SIZE - 1), y=_row_drawn(draws[1]), right=right, timer=jnp.int32(_DIVER_MOVE_INTERVAL)
    )
    first, second = game.divers
    alone = first.x < 0
    divers = _choose(spawns & alone, diver, first), _choose(spawns & ~alone, diver, second)
    return game._replace(divers=divers, diver_timer=jnp.where(spawns, _DIVER_INTERVAL, game.diver_timer))


def _act(game: SeaquestState, action: Array) -> SeaquestState:
    """Fire, or move the player."""
    fires = (action == FIRE) & (game.shot_timer == 0)
    bullet = Swimmer(x=game.x, y=game.y, right=game.right, timer=jnp.int32(0))
    step_x = (action == RIGHT).astype(jnp.int32) - (action == LEFT).astype(jnp.int32)
    step_y = (action == DOWN).astype(jnp.int32) - (action == UP).astype(jnp.int32)
    newest, older = game.bullets  # five steps apart: when a third is fired, the first has left the grid
    return game._replace(
        x=jnp.clip(game.x + step_x, 0, SIZE - 1),
        y=jnp.clip(game.y + step_y, 0, SIZE - 2),
        right=(step_x > 0) | (game.right & (step_x == 0)),
        bullets=(_choose(fires, bullet, newest), _choose(fires, newest, older)),
        shot_timer=jnp.where(fires, _SHOT_INTERVAL, game.shot_timer),
    )


def _step_on(swimmer: Swimmer) -> Swimmer:
    """Move a swimmer, if there is one, by one cell; it disappears when it leaves the grid."""
    x = jnp.where(swimmer.right, swimmer.x + 1, swimmer.x - 1)
    return swimmer._replace(x=jnp.where((swimmer.x >= 0) & (x < SIZE), x, -1))


def _spend(bullets: tuple[Swimmer, Swimmer], cells: list[Array], hit: Array) -> tuple[Swimmer, Swimmer]:
    """Remove the bullets in the cells of the board `hit`."""
    newest, older = bullets
    return (
        newest._replace(x=jnp.where(_any(cells[0] & hit), -1, newest.x)),
        older._replace(x=jnp.where(_any(cells[1] & hit), -1, older.x)),
    )


def _fly(game: SeaquestState) -> tuple[SeaquestState, Array]:
    """Move the player's bullets; each hits one enemy: fish before submarines, the oldest first.

    Returns:
      (game, how many were hit).
    """
    newest, older = game.bullets
    bullets = _step_on(newest), _step_on(older)
    cells = [_lane(bullet.x, bullet.y) for bullet in bullets]
    open_cells = cells[0] | cells[1]
    subs = game.enemies >> jnp.uint32(SIZE)
    victims = [jnp.zeros(_LANES, jnp.uint32)] * (_MOVE_INTERVAL + 1)
    for kind in (game.enemies & ~subs & _FIELD, subs & game.enemies & _FIELD):
        for timer in range(_MOVE_INTERVAL + 1):  # if two share a cell, the older one moves first
            hit = open_cells & kind[timer]
            victims[timer] = victims[timer] | hit
            open_cells = open_cells & ~hit
    keep = ~_spread(jnp.stack(victims))
    spent = (cells[0] | cells[1]) & ~open_cells
    bullets = tuple(
        bullet._replace(x=jnp.where(_any(own & spent), -1, bullet.x))
        for bullet, own in zip(bullets, cells, strict=True)
    )
    game = game._replace(enemies=game.enemies & keep, phases=game.phases & keep, bullets=bullets)
    return game, _count(spent)


def _swim_divers(game: SeaquestState) -> SeaquestState:
    """Let the divers come aboard or swim on, the newest first."""
    aboard = game.divers_aboard
    at_player = lambda diver: (diver.x == game.x) & (diver.y == game.y)
    swum = []
    for diver in reversed(game.divers):
        boards = at_player(diver) & (aboard < _CREW)
        aboard = aboard + boards.astype(jnp.int32)
        moves = diver.timer == 0
        moved = _step_on(diver)._replace(timer=jnp.int32(_DIVER_MOVE_INTERVAL))
        waits = diver._replace(timer=diver.timer - 1)
        diver = _choose(moves, moved, waits)
        boards_now = ~boards & moves & at_player(diver) & (aboard < _CREW)
        aboard = aboard + boards_now.astype(jnp.int32)
        swum.append(diver._replace(x=jnp.where(boards | boards_now, -1, diver.x)))
    second, first = swum
    gone = first.x < 0
    divers = _choose(gone, second, first), second._replace(x=jnp.where(gone, -1, second.x))
    return game._replace(divers=divers, divers_aboard=aboard)


def _swim(words: Array, right: Array) -> Array:
    """Move every cell of three fields by one; cells that leave their field disappear."""
    return jnp.where(
        right, words << jnp.uint32(1) & _FIELDS & ~_LOWEST, words >> jnp.uint32(1) & ~(_LOWEST << np.uint32(SIZE - 1))
    )


def _swim_enemies(game: SeaquestState) -> tuple[SeaquestState, Array, Array]:
    """Move the enemies whose timers are due, and let submarines shoot.

    Returns:
      (game, how many swam into a bullet, whether one met the player).
    """
    player = _lane(game.x, game.y)
    met_before = _any(_union(game.enemies) & player)
    moved, moved_phases = _swim(game.enemies[0], game.lane_right), _swim(game.phases[0], game.lane_right)
    shooters = _shooters(moved, moved_phases, game.clock)
    for timer in range(1, _MOVE_INTERVAL + 1):
        shooters = shooters | _shooters(game.enemies[timer], game.phases[timer], game.clock)
    met = met_before | _any(moved & player)
    cells = [_lane(bullet.x, bullet.y) for bullet in game.bullets]
    hit = moved & (cells[0] | cells[1]) & ~player  # at most one in each cell: those that move have the same timer
    bullets = _spend(game.bullets, cells, hit)
    keep = ~_spread(hit)
    reload = (jnp.arange(_MOVE_INTERVAL + 1) == _move_interval(game))[:, None]
    elapse = lambda words: jnp.concatenate([words[1:], jnp.zeros((1, _LANES), jnp.uint32)])
    game = game._replace(
        enemies=elapse(game.enemies) | jnp.where(reload, moved & keep, 0),
        phases=elapse(game.phases) | jnp.where(reload, moved_phases & keep, 0),
        bullets=bullets,
        bullets_left=game.bullets_left | jnp.where(game.lane_right, 0, shooters),
        bullets_right=game.bullets_right | jnp.where(game.lane_right, shooters, 0),
    )
    return game, _count(hit), met


def _shooters(enemies: Array, phases: Array, clock: Array) -> Array:
    """Return the board of the submarines that shoot at `clock`, u32[8]."""
    clock = clock.astype(jnp.uint32)
    shooting = enemies & enemies >> jnp.uint32(SIZE)
    for digit in range(4):
        word, field = (enemies, 2) if digit == 0 else (phases, digit - 1)
        wanted = jnp.uint32(0) - (clock >> jnp.uint32(digit) & jnp.uint32(1))  # all bits as this digit of the clock
        shooting = shooting & ~(word >> jnp.uint32(SIZE * field) ^ wanted)
    return shooting & _FIELD


def _fly_enemy_bullets(game: SeaquestState) -> tuple[SeaquestState, Array]:
    """Move the submarines' bullets. Return (game, whether one hit the player)."""
    player = _lane(game.x, game.y)
    before = game.bullets_left | game.bullets_right
    left = game.bullets_left >> jnp.uint32(1)
    right = game.bullets_right << jnp.uint32(1) & _FIELD
    return game._replace(bullets_left=left, bullets_right=right), _any((before | left | right) & player)
