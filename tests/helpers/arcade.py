"""Environments in the shapes of Atari's and MiniGrid's, for scripts that look at those: simple games of our own."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.envs.grid.grid_world import GridWorld
from purerl.spaces import Box, Dict, Discrete
from purerl.types import Array, Environment, Key, TimeStep, pytree, static

SIDE, CELL = 14, 6  # cells of a picture's side, and pixels of a cell's


class ArcadeState(NamedTuple):
    """A ball that falls, and who is to catch it."""

    ball_row: Array  # i32[]
    ball_column: Array  # i32[]
    paddle: Array  # i32[], the column
    lives: Array  # i32[]
    reward: Array  # f32[], of the last step
    pictures: Array  # u8[4, 84, 84], the last ones, the newest last


@pytree
class Arcade(Environment):
    """Catch balls; each that is missed costs one of five lives. Observation u8[4, 84, 84], as Atari's in EnvPool."""

    num_actions: int = static(default=6)

    def reset(self, key: Key) -> tuple[ArcadeState, Array]:
        """Drop a ball anywhere."""
        column = jax.random.randint(key, (), 0, SIDE, jnp.int32)
        state = ArcadeState(
            ball_row=jnp.int32(0),
            ball_column=column,
            paddle=jnp.int32(SIDE // 2),
            lives=jnp.int32(5),
            reward=jnp.float32(0),
            pictures=jnp.zeros((4, SIDE * CELL, SIDE * CELL), jnp.uint8),
        )
        return self._drawn(state)

    def step(self, key: Key, state: ArcadeState, action: Array) -> tuple[ArcadeState, TimeStep]:
        """Even actions move to the left, odd ones to the right."""
        paddle = jnp.clip(state.paddle + 2 * (action % 2) - 1, 0, SIDE - 1)
        down = state.ball_row == SIDE - 1
        caught = down & (state.ball_column == paddle)
        column = jax.random.randint(key, (), 0, SIDE, jnp.int32)
        state, observation = self._drawn(
            state._replace(
                ball_row=jnp.where(down, 0, state.ball_row + 1),
                ball_column=jnp.where(down, column, state.ball_column),
                paddle=paddle,
                lives=state.lives - (down & ~caught).astype(jnp.int32),
                reward=caught.astype(jnp.float32),
            )
        )
        return state, TimeStep.transition(observation, state.reward, terminated=state.lives == 0)

    def _drawn(self, state: ArcadeState) -> tuple[ArcadeState, Array]:
        row = jnp.arange(SIDE * CELL, dtype=jnp.int32)[:, None] // CELL
        column = row.T
        ball = (row == state.ball_row) & (column == state.ball_column)
        paddle = (row == SIDE - 1) & (column == state.paddle)
        picture = jnp.where(ball, 255, jnp.where(paddle, 128, 0)).astype(jnp.uint8)
        pictures = jnp.concatenate([state.pictures[1:], picture[None]])
        return state._replace(pictures=pictures), pictures

    @property
    def observation_space(self) -> Box:
        """u8[4, 84, 84]."""
        return Box(low=0, high=255, shape=(4, SIDE * CELL, SIDE * CELL), dtype=jnp.uint8)

    @property
    def action_space(self) -> Discrete:
        """As many as the game of Atari has that it stands for."""
        return Discrete(n=self.num_actions)


def shown(state: ArcadeState) -> dict[str, Array]:
    """Return what EnvPool's `info` shows of a game of Atari."""
    bytes_ = [state.ball_row, state.ball_column, state.paddle, state.lives]
    ram = jnp.zeros(128, jnp.uint8).at[:4].set(jnp.stack(bytes_).astype(jnp.uint8))
    over = (state.lives == 0).astype(jnp.int32)
    return {"lives": state.lives, "ram": ram, "reward": state.reward, "terminated": over}


@pytree
class Room(GridWorld):
    """The grid world with MiniGrid's observation in EnvPool: {"image": u8[7, 7, 3]}."""

    def reset(self, key: Key) -> tuple:
        state, observation = super().reset(key)
        return state, self._image(observation)

    def step(self, key: Key, state: tuple, action: Array) -> tuple:
        state, timestep = super().step(key, state, action)
        return state, timestep._replace(observation=self._image(timestep.observation))

    def _image(self, observation: Array) -> dict[str, Array]:
        return {"image": observation[1:8, 1:8].astype(jnp.uint8)}

    @property
    def observation_space(self) -> Dict:
        return Dict(spaces={"image": Box(low=0, high=255, shape=(7, 7, 3), dtype=jnp.uint8)})
