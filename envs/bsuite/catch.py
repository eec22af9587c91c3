"""Catch: move a paddle along the bottom row to catch a falling ball."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import tiles
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, pytree, static


class CatchState(NamedTuple):
    """The ball and the paddle."""

    ball_row: Array  # i32[], 0 is the top; also the number of steps taken
    ball_column: Array  # i32[]
    paddle_column: Array  # i32[]


@pytree
class Catch(Environment):
    """Reward 1 if the paddle is under the ball when it arrives, else -1; 0 before. Best possible return: 1.

    Observation f32[rows, columns]: 1 at the ball and at the paddle. Action: 0 moves left, 1 stays, 2 moves right.
    An episode is `rows` - 1 steps long.

    Source: bsuite (Osband et al. 2020, arXiv:1908.03568), whose rules these are; there 10 x 5 as here.
    """

    rows: int = static(default=10, doc="height of the board", at_least=2)
    columns: int = static(default=5, doc="width of the board", at_least=1)

    def reset(self, key: Key) -> tuple[CatchState, Array]:
        """Put the ball in a random column of the top row and the paddle in the middle."""
        column = jax.random.randint(key, (), 0, self.columns, jnp.int32)
        state = CatchState(ball_row=jnp.int32(0), ball_column=column, paddle_column=jnp.int32(self.columns // 2))
        return state, self.observe(state)

    def step(self, key: Key, state: CatchState, action: Array) -> tuple[CatchState, TimeStep]:
        """Move the paddle, then drop the ball by one row."""
        paddle = jnp.clip(state.paddle_column + action.astype(jnp.int32) - 1, 0, self.columns - 1)
        state = CatchState(ball_row=state.ball_row + 1, ball_column=state.ball_column, paddle_column=paddle)
        terminated = state.ball_row == self.rows - 1
        reward = jnp.where(paddle == state.ball_column, 1.0, -1.0)
        reward = jnp.where(terminated, reward, 0.0)
        return state, TimeStep.transition(self.observe(state), reward, terminated=terminated)

    def observe(self, state: CatchState) -> Array:
        """Return f32[rows, columns]: 1 where the ball or the paddle is."""
        row = jnp.arange(self.rows, dtype=jnp.int32)[:, None]
        column = jnp.arange(self.columns, dtype=jnp.int32)[None, :]
        ball = (row == state.ball_row) & (column == state.ball_column)
        paddle = (row == self.rows - 1) & (column == state.paddle_column)
        return (ball | paddle).astype(jnp.float32)

    def render_text(self, state: CatchState) -> str:
        """Return the board as text: o the ball, @ the paddle."""
        board = np.full((self.rows, self.columns), ".")
        board[int(state.ball_row), int(state.ball_column)] = "o"
        board[-1, int(state.paddle_column)] = "@"
        return "\n".join("".join(row) for row in board)

    def render(self, state: CatchState) -> np.ndarray:
        """Draw the tiles of `render_text`: u8[H, W, 3]."""
        return tiles(self.render_text(state))

    @property
    def observation_space(self) -> Box:
        """f32[rows, columns]."""
        return Box(low=0.0, high=1.0, shape=(self.rows, self.columns))

    @property
    def action_space(self) -> Discrete:
        """0 left, 1 stay, 2 right."""
        return Discrete(n=3)
