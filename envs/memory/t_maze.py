"""T-maze: a sign at the start of a corridor shows which way to turn at its end."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import tiles
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree

NORTH, EAST, SOUTH, WEST = range(4)


class TMazeState(NamedTuple):
    """The positions of the walker and the goal."""

    position: Array  # i32[], 0 is the start, `corridor_length` the junction
    goal_north: Array  # bool[], whether the goal is north of the junction, else south
    time: Array  # i32[], steps taken


@pytree
class TMaze(Environment):
    """Walk along a corridor and turn toward the goal; turning ends the episode.

    The correct turn pays `goal_reward`; the wrong one, and a move into a wall, `mistake_reward`. Best possible
    return: `goal_reward`; without memory (goal_reward + mistake_reward) / 2 in expectation.

    Observation f32[4], one-hot: at the start with the goal north, at the start with the goal south, in the corridor,
    at the junction. Action: 0 north, 1 east, 2 south, 3 west.

    Source: Bakker (2002), whose corridor, rewards and actions these are; there the observation is three bits.
    """

    corridor_length: int = number(default=10, doc="steps from the start to the junction", at_least=1)
    goal_reward: float = number(default=4.0, doc="reward of the right turn")
    mistake_reward: float = number(default=-0.1, doc="reward of the wrong turn and of walking into a wall")
    time_limit: int = number(default=100, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[TMazeState, Array]:
        """Sample the side of the goal; the walker is at the start."""
        state = TMazeState(position=jnp.int32(0), goal_north=jax.random.bernoulli(key), time=jnp.int32(0))
        return state, self._observe(state)

    def step(self, key: Key, state: TMazeState, action: Array) -> tuple[TMazeState, TimeStep]:
        """Walk or turn."""
        turns = (action == NORTH) | (action == SOUTH)
        terminated = turns & (state.position >= self.corridor_length)
        right = terminated & ((action == NORTH) == state.goal_north)
        shift = (action == EAST).astype(jnp.int32) - (action == WEST).astype(jnp.int32)
        position = jnp.clip(state.position + shift, 0, self.corridor_length)
        moved = position != state.position
        reward = jnp.where(right, self.goal_reward, jnp.where(moved, 0.0, self.mistake_reward))
        state = TMazeState(position=position, goal_north=state.goal_north, time=state.time + 1)
        time_up, reward = state.time >= self.time_limit, reward.astype(jnp.float32)
        return state, TimeStep.transition(self._observe(state), reward, terminated=terminated, time_up=time_up)

    def _observe(self, state: TMazeState) -> Array:
        start, junction = state.position == 0, state.position >= self.corridor_length
        sign = [start & state.goal_north, start & ~state.goal_north]
        return jnp.stack([*sign, ~start & ~junction, junction]).astype(jnp.float32)

    def render_text(self, state: TMazeState) -> str:
        """Return the maze as text: @ the walker, G the goal, H the wrong turn."""
        length = int(self.corridor_length)
        goal, wrong = ("G", "H") if state.goal_north else ("H", "G")
        corridor = "".join("@" if i == int(state.position) else "." for i in range(length + 1))
        return "\n".join(["#" * length + goal + "#", corridor + "#", "#" * length + wrong + "#"])

    def render(self, state: TMazeState) -> np.ndarray:
        """Draw the tiles of `render_text`: u8[H, W, 3]."""
        return tiles(self.render_text(state))

    @property
    def observation_space(self) -> Box:
        """f32[4]."""
        return Box(low=0.0, high=1.0, shape=(4,))

    @property
    def action_space(self) -> Discrete:
        """0 north, 1 east, 2 south, 3 west."""
        return Discrete(n=4)
