"""MountainCar-v0: drive a car up a hill with an engine too weak to climb it at once."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import INK, ORANGE, RED, Canvas
from purerl.envs.trigonometry import sincos
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, TimeStep, number, pytree


class MountainCarState(NamedTuple):
    """The car."""

    position: Array  # f32[]
    velocity: Array  # f32[], per step
    time: Array  # i32[], steps taken


@pytree
class Car(Environment):
    """The shared part of both mountain cars: the hills, the walls and the goal."""

    gravity: float = number(default=0.0025, doc="change of velocity per step where the slope is steepest")
    min_position: float = number(default=-1.2, doc="position of the wall on the left")
    max_position: float = number(default=0.6, doc="position at which the track ends on the right")
    max_speed: float = number(default=0.07, doc="largest change of position per step")
    goal_position: float = number(default=0.5, doc="position from which the goal counts as reached")
    goal_velocity: float = number(default=0.0, doc="velocity needed at the goal")
    time_limit: int = number(default=200, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[MountainCarState, Array]:
        """Sample the position uniformly from -0.6 .. -0.4; the car stands still."""
        position = jax.random.uniform(key, (), jnp.float32, -0.6, -0.4)
        state = MountainCarState(position=position, velocity=jnp.float32(0), time=jnp.int32(0))
        return state, self._observe(state)

    def _advance(self, state: MountainCarState, push: Array) -> tuple[MountainCarState, Array, Array]:
        """Return (state, terminated, whether the time limit is reached) after a change of velocity by `push`."""
        velocity = state.velocity + push - self.gravity * sincos(3 * state.position)[1]
        velocity = jnp.clip(velocity, -self.max_speed, self.max_speed)
        position = jnp.clip(state.position + velocity, self.min_position, self.max_position)
        velocity = jnp.where((position <= self.min_position) & (velocity < 0), 0.0, velocity)
        state = MountainCarState(position=position, velocity=velocity, time=state.time + 1)
        terminated = (position >= self.goal_position) & (velocity >= self.goal_velocity)
        return state, terminated, state.time >= self.time_limit

    def _observe(self, state: MountainCarState) -> Array:
        return jnp.stack([state.position, state.velocity])

    def render(self, state: MountainCarState) -> np.ndarray:
        """Draw the car on its hills and the flag at the goal: u8[H, W, 3]."""
        return draw_car(self, float(state.position))

    @property
    def observation_space(self) -> Box:
        """f32[2]."""
        low = jnp.stack([jnp.asarray(x, jnp.float32) for x in (self.min_position, -self.max_speed)])
        high = jnp.stack([jnp.asarray(x, jnp.float32) for x in (self.max_position, self.max_speed)])
        return Box(low=low, high=high, shape=(2,))


@pytree
class MountainCar(Car):
    """Reward -1 per step; ends when the car reaches the goal. The height at position x is sin(3 x).

    Observation f32[2]: position, velocity. Action: 0 pushes left, 1 does nothing, 2 pushes right.

    Source: Moore (1990) in the form of Sutton (1996), as `MountainCar-v0` of Gymnasium, whose dynamics these are.
    """

    force: float = number(default=0.001, doc="change of velocity per step of one push")

    def step(self, key: Key, state: MountainCarState, action: Array) -> tuple[MountainCarState, TimeStep]:
        """Accelerate, then move; the wall on the left stops the car."""
        state, terminated, time_up = self._advance(state, self.force * (action - 1).astype(jnp.float32))
        return state, TimeStep.transition(self._observe(state), jnp.float32(-1), terminated=terminated, time_up=time_up)

    @property
    def action_space(self) -> Discrete:
        """0 left, 1 nothing, 2 right."""
        return Discrete(n=3)


def draw_car(env: Any, position: float) -> np.ndarray:
    """Draw a mountain car, of either kind, at a position: u8[H, W, 3]."""
    height = lambda x: 0.45 * np.sin(3 * x) + 0.55
    low, high, goal = float(env.min_position), float(env.max_position), float(env.goal_position)
    canvas = Canvas((low, high), (0.0, 1.2), 600, 400)
    ground = [(x, height(x)) for x in np.linspace(low, high, 100)]
    canvas.line(ground, INK, 0.01)
    canvas.line([(goal, height(goal)), (goal, height(goal) + 0.15)], INK, 0.01)
    canvas.polygon([(goal, height(goal) + y) for y in (0.15, 0.09)] + [(goal + 0.07, height(goal) + 0.12)], RED)
    slope = np.arctan(1.35 * np.cos(3 * position))
    turn = np.array([[np.cos(slope), -np.sin(slope)], [np.sin(slope), np.cos(slope)]])
    place = lambda x, y: (np.array([position, height(position)]) + turn @ np.array([x, y])).tolist()
    canvas.polygon([place(-0.07, 0.03), place(0.07, 0.03), place(0.05, 0.085), place(-0.05, 0.085)], ORANGE)
    for x in (-0.045, 0.045):
        canvas.circle(place(x, 0.025), 0.022, INK)
    return canvas.pixels()
