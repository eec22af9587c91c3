"""The held-out levels of the maze: generated rooms, corridors, spirals and labyrinths. NumPy, on the host."""

import functools

import numpy as np

from purerl.errors import InputError

SIDE = 13  # cells of a maze, its border of walls not counted
FACES = ">v<^"  # a start that faces east, south, west, north
Level = dict[str, np.ndarray]


def read_maze(text: str) -> Level:
    """Parse a map of 13 x 13 letters: # wall, . free, G goal, and the start > v < ^, which gives the direction.

    Returns:
      The fields `walls` bool[13, 13], `goal` and `start` i32[2] and `direction` i32[] of a `Maze`.

    Raises:
      InputError: for another size, an unknown letter, or not exactly one goal and one start.
    """
    rows = text.split()
    if len(rows) != SIDE or {len(row) for row in rows} != {SIDE}:
        raise InputError(f"a maze must have {SIDE} rows of {SIDE} characters")
    cells = np.array([list(row) for row in rows])
    if strange := set(cells.ravel()) - set("#.G" + FACES):
        raise InputError(f"unknown letters in a maze: {', '.join(sorted(strange))}; allowed: # . G > v < ^")
    goals, starts = np.argwhere(cells == "G"), np.argwhere(np.isin(cells, list(FACES)))
    if len(goals) != 1 or len(starts) != 1:
        raise InputError(f"a maze has one goal G and one start of > v < ^; this one has {len(goals)} and {len(starts)}")
    return level(cells == "#", tuple(goals[0]), tuple(starts[0]), FACES.index(str(cells[tuple(starts[0])])))


def level(walls: np.ndarray, goal: tuple[int, int], start: tuple[int, int], direction: int) -> Level:
    """Return a level: `walls` bool[13, 13], (row, column) of `goal` and `start`, and a direction 0 .. 3."""
    return {
        "walls": np.asarray(walls, np.bool_),
        "goal": np.array(goal, np.int32),
        "start": np.array(start, np.int32),
        "direction": np.array(direction, np.int32),
    }


@functools.cache
def held_out() -> dict[str, Level]:
    """Return the held-out levels by name; each can be solved."""
    last = SIDE - 1
    levels = {
        "empty": level(_none(), (last, last), (0, 0), 0),
        "four rooms": level(_rooms((6,), (2, 10)), (10, 10), (1, 2), 1),
        "sixteen rooms": level(_rooms((3, 6, 9), (1, 4, 7, 11)), (last, last), (0, 0), 0),
        "sixteen rooms with few doors": level(_few_doors(), (0, last), (last, 0), 3),
        "corridors": level(_corridors(), (last, 8), (6, 0), 0),
        "corridors to the far end": level(_corridors(), (0, last), (6, 0), 2),
        "zigzag": level(_zigzag(), (last, last), (0, 0), 0),
        "spiral": level(_spiral(), (6, 6), (0, 0), 0),
        "rings": level(_rings(), (6, 6), (last, 0), 3),
        "labyrinth 1": level(_labyrinth(1), (last, last), (0, 0), 1),
        "labyrinth 2": level(_labyrinth(2), (0, last), (last, 0), 0),
        "labyrinth 3": level(_labyrinth(3), (6, 6), (last, last), 2),
    }
    for made in (array for one in levels.values() for array in one.values()):
        made.flags.writeable = False  # they are shared
    return levels


def _none() -> np.ndarray:
    return np.zeros((SIDE, SIDE), np.bool_)


def _rooms(lines: tuple[int, ...], doors: tuple[int, ...]) -> np.ndarray:
    """Return rooms between walls on these rows and columns, with a door in each wall of each room."""
    walls = _none()
    walls[list(lines)] = True
    walls[:, list(lines)] = True
    for line in lines:
        walls[line, list(doors)] = walls[list(doors), line] = False
    return walls


def _few_doors() -> np.ndarray:
    """Return sixteen rooms, two columns of which are joined by a single door."""
    walls = _rooms((3, 6, 9), (1, 4, 7, 11))
    for line, door in ((3, 11), (6, 1), (9, 7)):
        walls[:, line] = True
        walls[door, line] = False
    return walls


def _corridors() -> np.ndarray:
    """Return a corridor along the middle row, with dead ends to both sides in every second column."""
    walls = _none()
    walls[:, 1::2] = True
    walls[6] = False
    return walls


def _zigzag() -> np.ndarray:
    """Return walls on every second row, with openings on alternate sides."""
    walls = _none()
    walls[1::2] = True
    for i, row in enumerate(range(1, SIDE, 2)):
        walls[row, -1 if i % 2 == 0 else 0] = False
    return walls


def _spiral() -> np.ndarray:
    """Return a corridor that winds inward to the middle; it turns where only one more cell is free."""
    walls = ~_none()
    row, column, step = 0, 0, (0, 1)
    walls[0, 0] = False
    free = lambda r, c: 0 <= r < SIDE and 0 <= c < SIDE and not walls[r, c]
    inside = lambda r, c: 0 <= r < SIDE and 0 <= c < SIDE
    for _ in range(4 * SIDE):
        while inside(row + step[0], column + step[1]) and not free(row + 2 * step[0], column + 2 * step[1]):
            row, column = row + step[0], column + step[1]
            walls[row, column] = False
        step = (step[1], -step[0])  # to the right
    return walls


def _rings() -> np.ndarray:
    """Return square rings around the middle, each with one gap, on alternate sides."""
    walls = _none()
    for i, edge in enumerate((1, 3, 5)):
        far = SIDE - 1 - edge
        walls[edge, edge : far + 1] = walls[far, edge : far + 1] = True
        walls[edge : far + 1, edge] = walls[edge : far + 1, far] = True
        walls[edge if i % 2 == 0 else far, 6] = False
    return walls


def _labyrinth(seed: int) -> np.ndarray:
    """Return a labyrinth without cycles: corridors dug at random among every second cell."""
    draw, walls = np.random.default_rng(seed), ~_none()
    walls[0, 0], path = False, [(0, 0)]
    while path:
        row, column = path[-1]
        ways = [(row + 2 * r, column + 2 * c) for r, c in ((0, 1), (1, 0), (0, -1), (-1, 0))]
        ways = [(r, c) for r, c in ways if 0 <= r < SIDE and 0 <= c < SIDE and walls[r, c]]
        if not ways:
            path.pop()
            continue
        there = ways[draw.integers(len(ways))]
        walls[(row + there[0]) // 2, (column + there[1]) // 2] = walls[there] = False
        path.append(there)
    return walls
