"""Deep sea: find one treasure that random exploration finds once in 2^size episodes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import tiles
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree, static


class DeepSeaState(NamedTuple):
    """The diver's position."""

    row: Array  # i32[], the depth; also the number of steps taken
    column: Array  # i32[]


@pytree
class DeepSea(Environment):
    """A diver sinks one row per step and moves one column left or right; going right all the way finds reward 1.

    A step to the right costs `move_cost` / `size`. Which of the two actions is right differs from cell to cell. An
    episode is `size` steps long. Best possible return: 1 - `move_cost`; when windy, in expectation,
    (1 - 1/size)^(size - 1) - `move_cost` (1 - (1 - 1/size)^size), as nobody goes right again after a move that failed.

    Observation f32[size, size]: 1 at the diver, all 0 at the end. Action: 0 or 1.

    Source: Osband et al. (2017), arXiv:1703.07608, as in bsuite, whose rules these are; there a table, here a hash of
    `mapping_seed` and the cell says which action is right, so that mappings can be vmapped.
    """

    size: int = static(default=10, doc="rows and columns", at_least=2)
    windy: bool = static(
        default=False, doc="a move right fails with probability 1/size, and the last rewards are noisy"
    )
    move_cost: float = number(default=0.01, doc="cost of going right all the way", at_least=0)
    mapping_seed: int = number(default=0, doc="decides which action is right in which cell")

    def reset(self, key: Key) -> tuple[DeepSeaState, Array]:
        """Start in the top left corner."""
        state = DeepSeaState(jnp.int32(0), jnp.int32(0))
        return state, self.observe(state)

    def step(self, key: Key, state: DeepSeaState, action: Array) -> tuple[DeepSeaState, TimeStep]:
        """Move sideways and sink by one row."""
        last = self.size - 1
        right = action == self.action_right(state.row, state.column)
        reward = jnp.where(right & (state.column == last), 1.0, 0.0)
        reward = reward - jnp.where(right, self.move_cost / self.size, 0.0)
        moves_right = right
        if self.windy:
            key_wind, key_noise = jax.random.split(key)
            moves_right = right & (jax.random.uniform(key_wind) > 1 / self.size)
            noisy = (state.row == last) & ((state.column == 0) | (state.column == last))
            reward = reward + jnp.where(noisy, jax.random.normal(key_noise), 0.0)
        shift = jnp.where(right, moves_right.astype(jnp.int32), -1)
        state = DeepSeaState(state.row + 1, jnp.clip(state.column + shift, 0, last))
        terminated = state.row == self.size
        return state, TimeStep.transition(self.observe(state), reward, terminated=terminated)

    def action_right(self, row: Array, column: Array) -> Array:
        """Return i32[...]: the action that moves right in a cell (row and column i32[...])."""
        x = (row * self.size + column).astype(jnp.uint32) * jnp.uint32(0x9E3779B9)
        x = x + jnp.asarray(self.mapping_seed).astype(jnp.uint32) * jnp.uint32(0x85EBCA6B)
        for shift, factor in ((16, 0x21F0AAAD), (15, 0xD35A2D97)):
            x = (x ^ (x >> jnp.uint32(shift))) * jnp.uint32(factor)
        return (x >> jnp.uint32(31)).astype(jnp.int32)

    def observe(self, state: DeepSeaState) -> Array:
        """Return f32[size, size]: 1 where the diver is; 0 everywhere at the bottom."""
        return jnp.zeros((self.size, self.size)).at[state.row, state.column].set(1.0, mode="drop")

    def render_text(self, state: DeepSeaState) -> str:
        """Return the sea as text: @ the diver, G the treasure."""
        sea = np.full((self.size, self.size), ".")
        sea[-1, -1] = "G"
        if state.row < self.size:
            sea[int(state.row), int(state.column)] = "@"
        return "\n".join("".join(row) for row in sea)

    def render(self, state: DeepSeaState) -> np.ndarray:
        """Draw the tiles of `render_text`: u8[H, W, 3]."""
        return tiles(self.render_text(state))

    @property
    def observation_space(self) -> Box:
        """f32[size, size]."""
        return Box(low=0.0, high=1.0, shape=(self.size, self.size))

    @property
    def action_space(self) -> Discrete:
        """Left and right, in an order that depends on the cell."""
        return Discrete(n=2)
