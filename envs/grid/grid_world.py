"""Grid world: walk to a goal on a map that is data, so that thousands of maps train in one program."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import tiles
from purerl.errors import InputError
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree

ROOM = """
#########
#.....#.#
#.###...#
#...#.#.#
###.#.###
#.....#.#
#.###...#
#...#..G#
#########
"""


class GridState(NamedTuple):
    """The walker's position."""

    row: Array  # i32[]
    column: Array  # i32[]
    time: Array  # i32[], steps taken


def read_map(text: str) -> dict[str, np.ndarray]:
    """Read a map: # wall, . free, S start, G goal (ends the episode with reward 1), H hole (ends it with reward -1).

    Without an S an episode starts in any free cell.

    Returns:
      The fields `walls`, `goals`, `starts` (bool[H, W]) and `rewards` (f32[H, W]) of a `GridWorld`.

    Raises:
      InputError: for rows of different lengths, an unknown letter, or no cell to start in.
    """
    rows = text.split()
    if not rows or len({len(row) for row in rows}) != 1:
        raise InputError("a map must have rows of one length")
    cells = np.array([list(row) for row in rows])
    if strange := set(cells.ravel()) - set("#.SGH"):
        raise InputError(f"unknown letters in a map: {', '.join(sorted(strange))}; allowed: # . S G H")
    starts = cells == ("S" if "S" in cells else ".")
    if not starts.any():
        raise InputError("a map needs a start cell: S, or . for any free cell")
    rewards = (cells == "G").astype(np.float32) - (cells == "H").astype(np.float32)
    return {"walls": cells == "#", "goals": (cells == "G") | (cells == "H"), "rewards": rewards, "starts": starts}


def map_field(text: str, name: str, doc: str) -> Any:
    """Declare an array field whose default is read from a map."""
    default: Callable[[], np.ndarray] = lambda: read_map(text)[name]
    return dataclasses.field(default_factory=default, metadata={"doc": doc})


@pytree
class GridWorld(Environment):
    """Walk in four directions; walls and the edge stop moves; a cell in `goals` ends the episode.

    The reward of a step is `step_reward` plus the entry of `rewards` for the cell in which it ends. Best possible
    return: 1 on the default map; its farthest cell is 12 steps from the goal.

    A level is a map: it can be sampled and mutated.

    Observation bool[H, W, 3]: the walker, the walls, the goals. Action: 0 up, 1 right, 2 down, 3 left.
    """

    walls: Any = map_field(ROOM, "walls", "bool[H, W], cells that cannot be entered")
    goals: Any = map_field(ROOM, "goals", "bool[H, W], cells that end the episode")
    rewards: Any = map_field(ROOM, "rewards", "f32[H, W], what being in a cell after a step pays")
    starts: Any = map_field(ROOM, "starts", "bool[H, W], cells to start in, each as likely")
    step_reward: float = number(default=0.0, doc="reward of every step")
    slip: float = number(
        default=0.0, doc="probability of moving in another direction than chosen", at_least=0, at_most=1
    )
    time_limit: int = number(default=100, doc="steps after which an episode is truncated", at_least=1)

    @classmethod
    def from_text(cls, text: str, **fields: Any) -> "GridWorld":
        """Return the grid world of a map in the format of `read_map`, with further fields by name."""
        return cls(**read_map(text), **fields)

    def reset(self, key: Key) -> tuple[GridState, Array]:
        """Start in one of the cells of `starts`."""
        starts = jnp.asarray(self.starts).ravel()
        cells = jnp.nonzero(starts, size=starts.size)[0].astype(jnp.int32)
        cell = cells[jax.random.randint(key, (), 0, starts.sum(dtype=jnp.int32), jnp.int32)]
        width = self.walls.shape[1]
        state = GridState(row=cell // width, column=cell % width, time=jnp.int32(0))
        return state, self.observe(state)

    def step(self, key: Key, state: GridState, action: Array) -> tuple[GridState, TimeStep]:
        """Move by one cell."""
        slipped = jax.random.uniform(key) * 3 / jnp.maximum(self.slip, 1e-9)  # 0 .. 3 if it slips, else above
        direction = jnp.where(slipped < 3, action + 1 + slipped.astype(jnp.int32), action) % 4
        shift_row = (direction == 2).astype(jnp.int32) - (direction == 0).astype(jnp.int32)
        shift_column = (direction == 1).astype(jnp.int32) - (direction == 3).astype(jnp.int32)
        height, width = self.walls.shape
        row = jnp.clip(state.row + shift_row, 0, height - 1)
        column = jnp.clip(state.column + shift_column, 0, width - 1)
        blocked = jnp.asarray(self.walls)[row, column]
        row, column = jnp.where(blocked, state.row, row), jnp.where(blocked, state.column, column)
        reward = self.step_reward + jnp.asarray(self.rewards, jnp.float32)[row, column]
        terminated = jnp.asarray(self.goals)[row, column]
        state = GridState(row=row, column=column, time=state.time + 1)
        time_up = state.time >= self.time_limit
        return state, TimeStep.transition(self.observe(state), reward, terminated=terminated, time_up=time_up)

    def observe(self, state: GridState) -> Array:
        """Return bool[H, W, 3]: the walker, the walls, the goals."""
        # one cell is written onto the map: on a CPU a sixth of the cost of comparing every cell with the walker's
        walls, goals = jnp.asarray(self.walls, jnp.bool_), jnp.asarray(self.goals, jnp.bool_)
        empty = jnp.stack([jnp.zeros_like(walls), walls, goals], axis=-1)
        return empty.at[state.row, state.column, 0].set(True)

    def draw_level(self, key: Key) -> dict[str, Array]:
        """Sample a map of this size: inner cells are walls with a probability in 0 .. 0.4; one goal, one start.

        The reward at the goal is 1. The outermost cells do not change.
        """
        key_share, key_walls, key_cells = jax.random.split(key, 3)
        walls, share = jnp.asarray(self.walls, jnp.bool_), jax.random.uniform(key_share, maxval=0.4)
        walls = jnp.where(self._inner, jax.random.uniform(key_walls, walls.shape) < share, walls)
        free = jnp.where(walls, -1.0, jax.random.uniform(key_cells, walls.shape))
        free = jnp.where(self._inner, free, -2.0).ravel()
        goal, start = (_only(cell, walls.shape) for cell in jax.lax.top_k(free, 2)[1])
        walls = walls & ~goal & ~start  # where nothing was free
        return {"walls": walls, "goals": goal, "rewards": goal.astype(jnp.float32), "starts": start}

    def mutate_level(self, key: Key, level: dict[str, Array]) -> dict[str, Array]:
        """Change a map a little: one time in ten its goal moves, otherwise an inner cell becomes a wall or free."""
        key_kind, key_goal, key_cell = jax.random.split(key, 3)
        walls, goal, start = level["walls"], level["goals"], level["starts"]
        inner = self._inner & ~goal & ~start
        choose = lambda key, cells: _only(
            jnp.argmax(jnp.where(cells, jax.random.uniform(key, cells.shape), -1.0)), cells.shape
        )
        moves = (jax.random.uniform(key_kind) < 0.1) & jnp.any(inner & ~walls)
        walls = walls ^ (choose(key_cell, inner) & inner & ~moves)
        goal = jnp.where(moves, choose(key_goal, inner & ~walls), goal)
        return {"walls": walls, "goals": goal, "rewards": goal.astype(jnp.float32), "starts": start}

    @property
    def _inner(self) -> np.ndarray:
        """bool[H, W], the cells that are not outermost."""
        return np.pad(np.ones([size - 2 for size in self.walls.shape], np.bool_), 1)

    def render_text(self, state: GridState) -> str:
        """Return the map as text: @ the walker, # walls, G goals that pay, H goals that do not."""
        letters = np.where(np.asarray(self.walls), "#", ".")
        letters = np.where(np.asarray(self.goals), np.where(np.asarray(self.rewards) > 0, "G", "H"), letters)
        letters[int(state.row), int(state.column)] = "@"
        return "\n".join("".join(row) for row in letters)

    def render(self, state: GridState) -> np.ndarray:
        """Draw the tiles of `render_text`: u8[H, W, 3]."""
        return tiles(self.render_text(state))

    @property
    def observation_space(self) -> Box:
        """bool[H, W, 3]."""
        return Box(low=False, high=True, shape=(*self.walls.shape, 3), dtype=jnp.bool_)

    @property
    def action_space(self) -> Discrete:
        """0 up, 1 right, 2 down, 3 left."""
        return Discrete(n=4)


def _only(cell: Array, shape: tuple[int, ...]) -> Array:
    """Return bool[H, W], true only in the cell of an index."""
    return (jnp.arange(shape[0] * shape[1]) == cell).reshape(shape)
