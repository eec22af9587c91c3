"""FrozenLake-v1: cross slippery ice without falling into a hole."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import ICE, SILVER, tiles
from purerl.errors import InputError
from purerl.spaces import Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree, static

MAP_4X4 = ("SFFF", "FHFH", "FFFH", "HFFG")
MAP_8X8 = ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG")


class FrozenLakeState(NamedTuple):
    """The walker's position."""

    row: Array  # i32[]
    column: Array  # i32[]
    time: Array  # i32[], steps taken


@pytree
class FrozenLake(Environment):
    """Reward 1 at the goal; goal and holes end the episode. A move succeeds with `success_rate`, or slips sideways.

    Best possible expected return: 0.7442 on the 4 x 4 map within its 100 steps, 0.9132 on the 8 x 8 map within 200.

    Observation: the cell, row times the number of columns plus column. Action: 0 left, 1 down, 2 right, 3 up.

    Source: `FrozenLake-v1` of Gymnasium, whose rules these are; `lake=MAP_8X8, time_limit=200` is its larger map.
    """

    lake: tuple[str, ...] = static(default=MAP_4X4, doc="rows of S start, F frozen, H hole, G goal")
    success_rate: float = number(
        default=1 / 3,
        doc="probability of the chosen direction; otherwise one of its two neighbors",
        at_least=0,
        at_most=1,
    )
    time_limit: int = number(default=100, doc="steps after which an episode is truncated", at_least=1)

    def __post_init__(self) -> None:
        """Check the map."""
        letters = "".join(self.lake)
        if len({len(row) for row in self.lake}) != 1 or set(letters) - set("SFHG") or letters.count("S") != 1:
            raise InputError("FrozenLake: lake must have rows of one length made of S, F, H and G, with one S")

    def reset(self, key: Key) -> tuple[FrozenLakeState, Array]:
        """Start at S."""
        ((row, column),) = self._cells("S")
        state = FrozenLakeState(row=jnp.int32(row), column=jnp.int32(column), time=jnp.int32(0))
        return state, self._observe(state)

    def step(self, key: Key, state: FrozenLakeState, action: Array) -> tuple[FrozenLakeState, TimeStep]:
        """Slide by one cell."""
        drawn = jax.random.uniform(key)
        aside = jnp.where(drawn < 0.5 + 0.5 * self.success_rate, 1, 3)
        direction = (action + jnp.where(drawn < self.success_rate, 0, aside)) % 4
        shift_row = (direction == 1).astype(jnp.int32) - (direction == 3).astype(jnp.int32)
        shift_column = (direction == 2).astype(jnp.int32) - (direction == 0).astype(jnp.int32)
        row = jnp.clip(state.row + shift_row, 0, len(self.lake) - 1)
        column = jnp.clip(state.column + shift_column, 0, len(self.lake[0]) - 1)
        state = FrozenLakeState(row=row, column=column, time=state.time + 1)
        arrived = self._is_at(state, "G")
        terminated = arrived | self._is_at(state, "H")
        reward, time_up = arrived.astype(jnp.float32), state.time >= self.time_limit
        return state, TimeStep.transition(self._observe(state), reward, terminated=terminated, time_up=time_up)

    def _cells(self, letter: str) -> list[tuple[int, int]]:
        return [(y, x) for y, row in enumerate(self.lake) for x, here in enumerate(row) if here == letter]

    def _is_at(self, state: FrozenLakeState, letter: str) -> Array:
        here = jnp.zeros((), jnp.bool_)
        for row, column in self._cells(letter):
            here |= (state.row == row) & (state.column == column)
        return here

    def _observe(self, state: FrozenLakeState) -> Array:
        return state.row * len(self.lake[0]) + state.column

    def render_text(self, state: FrozenLakeState) -> str:
        """Return the lake as text: @ the walker, and S, F, H and G."""
        rows = [list(row) for row in self.lake]
        rows[int(state.row)][int(state.column)] = "@"
        return "\n".join("".join(row) for row in rows)

    def render(self, state: FrozenLakeState) -> np.ndarray:
        """Draw the tiles of `render_text`: u8[H, W, 3]."""
        return tiles(self.render_text(state), {"F": ICE, "S": SILVER})

    @property
    def observation_space(self) -> Discrete:
        """The cells."""
        return Discrete(n=len(self.lake) * len(self.lake[0]))

    @property
    def action_space(self) -> Discrete:
        """0 left, 1 down, 2 right, 3 up."""
        return Discrete(n=4)
