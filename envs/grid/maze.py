"""Maze: find a goal with a view of a few cells. The maze is data: levels are sampled, mutated and held out."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import BLUE, tiles
from purerl.envs.grid.maze_levels import SIDE, held_out, read_maze
from purerl.spaces import Box, Dict, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree

VIEW = 5  # cells across the view, and ahead, the agent's own included
_FORWARD = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]], np.int32)  # east, south, west, north


def _offsets() -> np.ndarray:
    """Return the cells of the view relative to the agent, by direction: i32[4, VIEW, VIEW, 2]."""
    ahead, aside = np.mgrid[VIEW - 1 : -1 : -1, -(VIEW // 2) : VIEW // 2 + 1].astype(np.int32)
    right = np.roll(_FORWARD, -1, axis=0)
    return ahead[..., None] * _FORWARD[:, None, None] + aside[..., None] * right[:, None, None]


class MazeState(NamedTuple):
    """The agent's position and direction."""

    row: Array  # i32[]
    column: Array  # i32[]
    direction: Array  # i32[], 0 east, 1 south, 2 west, 3 north
    time: Array  # i32[], steps taken


def _field(name: str, doc: str) -> Any:
    default: Callable[[], np.ndarray] = lambda: held_out()["sixteen rooms"][name]
    return dataclasses.field(default_factory=default, metadata={"doc": doc})


@pytree
class Maze(Environment):
    """Walk to the goal of a maze of 13 x 13 cells within walls; reward 1 - 0.9 t / T there, which ends the episode.

    t is the number of steps taken and T the time limit. Best possible return: 0.9028, 27 steps from the goal, on the
    default level. A level is `walls`, `goal`, `start` and `direction`; it can be sampled (up to `max_walls` walls, the
    goal and the start on other cells), mutated and held out.

    Observation: "view" bool[5, 5, 2], the walls and the goal in the cells ahead, seen through walls, the agent in the
    middle of the last row and facing the first one; "direction" 0 east, 1 south, 2 west, 3 north.
    Action: 0 turn left, 1 turn right, 2 go forward.

    Source: Chevalier-Boisvert et al. (2023), arXiv:2306.13831, MiniGrid's rules; Coward et al. (2024),
    arXiv:2403.13091, JaxUED's size, view and time limit.
    """

    walls: Any = _field("walls", "bool[13, 13], cells that cannot be entered")
    goal: Any = _field("goal", "i32[2], row and column of the goal")
    start: Any = _field("start", "i32[2], row and column to start in")
    direction: Any = _field("direction", "i32[], faced at the start: 0 east, 1 south, 2 west, 3 north")
    max_walls: int = number(default=60, doc="largest number of walls in a sampled level", at_least=0, at_most=160)
    time_limit: int = number(default=250, doc="steps after which an episode is truncated", at_least=1)

    @classmethod
    def from_text(cls, text: str, **fields: Any) -> "Maze":
        """Return the maze of a map in the format of `read_maze`, with further fields by name."""
        return cls(**read_maze(text), **fields)

    def reset(self, key: Key) -> tuple[MazeState, dict[str, Array]]:
        """Start where the level defines it; nothing is random."""
        start, direction = jnp.asarray(self.start, jnp.int32), jnp.asarray(self.direction, jnp.int32)
        state = MazeState(row=start[0], column=start[1], direction=direction, time=jnp.int32(0))
        return state, self._seen(state)

    def step(self, key: Key, state: MazeState, action: Array) -> tuple[MazeState, TimeStep]:
        """Turn, or go forward by one cell."""
        turn = (action == 1).astype(jnp.int32) - (action == 0).astype(jnp.int32)
        direction = (state.direction + turn) % 4
        ahead = jnp.asarray(_FORWARD)[direction] * (action == 2).astype(jnp.int32)
        row, column = jnp.clip(state.row + ahead[0], 0, SIDE - 1), jnp.clip(state.column + ahead[1], 0, SIDE - 1)
        blocked = jnp.asarray(self.walls)[row, column]
        row, column = jnp.where(blocked, state.row, row), jnp.where(blocked, state.column, column)
        state = MazeState(row=row, column=column, direction=direction, time=state.time + 1)
        goal = jnp.asarray(self.goal, jnp.int32)
        found = (row == goal[0]) & (column == goal[1])
        reward = jnp.where(found, 1.0 - 0.9 * (state.time.astype(jnp.float32) / self.time_limit), 0.0)
        time_up = state.time >= self.time_limit
        return state, TimeStep.transition(self._seen(state), reward, terminated=found, time_up=time_up)

    def _seen(self, state: MazeState) -> dict[str, Array]:
        cells = jnp.asarray(_offsets())[state.direction] + jnp.stack([state.row, state.column])
        inside = jnp.all((cells >= 0) & (cells < SIDE), axis=-1)
        near = jnp.clip(cells, 0, SIDE - 1)
        walls = jnp.asarray(self.walls, jnp.bool_)[near[..., 0], near[..., 1]] | ~inside
        goal = jnp.all(cells == jnp.asarray(self.goal, jnp.int32), axis=-1)
        return {"direction": state.direction, "view": jnp.stack([walls, goal], axis=-1)}

    def draw_level(self, key: Key) -> dict[str, Array]:
        """Sample a level: 0 .. `max_walls` walls anywhere, the goal and the start on two other cells, any direction."""
        keys = jax.random.split(key, 4)
        count = jax.random.randint(keys[0], (), 0, jnp.asarray(self.max_walls, jnp.int32) + 1)
        order = jax.random.permutation(keys[1], SIDE * SIDE)  # the first of it are walls, the next two free
        walls = jnp.zeros(SIDE * SIDE, jnp.bool_).at[order].set(jnp.arange(SIDE * SIDE) < count)
        return {
            "walls": walls.reshape(SIDE, SIDE),
            "goal": _cell(order[count]),
            "start": _cell(order[count + 1]),
            "direction": jax.random.randint(keys[2], (), 0, 4, jnp.int32),
        }

    def mutate_level(self, key: Key, level: dict[str, Array]) -> dict[str, Array]:
        """Change a level a little: one time in ten the goal moves, otherwise a cell becomes a wall or free."""
        key_kind, key_goal, key_cell = jax.random.split(key, 3)
        walls, goal, start = level["walls"].ravel(), _index(level["goal"]), _index(level["start"])
        cells = jnp.arange(SIDE * SIDE)
        moves = jax.random.uniform(key_kind) < 0.1
        flipped = _choose(key_cell, (cells != goal) & (cells != start))
        walls = jnp.where((cells == flipped) & ~moves, ~walls, walls)
        goal = jnp.where(moves, _choose(key_goal, ~walls & (cells != start) & (cells != goal)), goal)
        return {**level, "walls": walls.reshape(SIDE, SIDE), "goal": _cell(goal)}

    def held_out_levels(self) -> dict[str, dict[str, np.ndarray]]:
        """Return {name: level} of the handmade and generated levels for evaluation."""
        return held_out()

    def render_text(self, state: MazeState) -> str:
        """Return the maze as text: > v < ^ the agent, # walls, G the goal, within a border of walls."""
        letters = np.where(np.pad(np.asarray(self.walls), 1, constant_values=True), "#", ".")
        letters[tuple(np.asarray(self.goal) + 1)] = "G"
        letters[int(state.row) + 1, int(state.column) + 1] = ">v<^"[int(state.direction)]
        return "\n".join("".join(row) for row in letters)

    def render(self, state: MazeState) -> np.ndarray:
        """Draw the tiles of `render_text`: u8[height, width, 3]; the side that the agent faces is dark."""
        text = self.render_text(state)
        picture = tiles(text, dict.fromkeys(">v<^", BLUE))
        side = picture.shape[0] // (SIDE + 2)
        top, left = (int(state.row) + 1) * side, (int(state.column) + 1) * side
        tile, edge = picture[top : top + side, left : left + side], max(2, side // 4)
        faced = [np.s_[:, -edge:], np.s_[-edge:], np.s_[:, :edge], np.s_[:edge]][int(state.direction)]
        tile[faced] = 0
        return picture

    @property
    def observation_space(self) -> Dict:
        """The view bool[5, 5, 2] and the direction 0 .. 3."""
        view = Box(low=False, high=True, shape=(VIEW, VIEW, 2), dtype=jnp.bool_)
        return Dict(spaces={"direction": Discrete(n=4), "view": view})

    @property
    def action_space(self) -> Discrete:
        """0 turn left, 1 turn right, 2 go forward."""
        return Discrete(n=3)


def _cell(index: Array) -> Array:
    """Return the row and the column of a cell's index, i32[2]."""
    return jnp.stack([index // SIDE, index % SIDE]).astype(jnp.int32)


def _index(cell: Array) -> Array:
    return cell[0] * SIDE + cell[1]


def _choose(key: Key, allowed: Array) -> Array:
    """Sample the index of a cell, i32[], among those allowed, bool[SIDE * SIDE]."""
    return jnp.argmax(jnp.where(allowed, jax.random.uniform(key, allowed.shape), -1.0)).astype(jnp.int32)
