"""Point mass: push a mass on a plane to the origin and hold it there."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import BLUE, GREEN, SILVER, Canvas
from purerl.spaces import Box
from purerl.types import Array, Environment, Key, TimeStep, number, pytree


class PointMassState(NamedTuple):
    """The mass."""

    x: Array  # f32[], meters
    y: Array  # f32[], meters
    velocity_x: Array  # f32[], meters per second
    velocity_y: Array  # f32[], meters per second
    time: Array  # i32[], steps taken


@pytree
class PointMass(Environment):
    """Reward -(|position|^2 + velocity_cost |velocity|^2 + action_cost |action|^2), computed before the step.

      velocity' = velocity + time_step (max_force action - drag velocity) / mass
      position' = position + time_step velocity'

    Never ends by itself. Linear and quadratic except for the bounds of the action, so the linear-quadratic regulator
    bounds the return: from a start p no policy gets more than -5.5377 |p|^2, on average -3.6918.

    Observation f32[4]: position, velocity. Action f32[2]: the force, in parts of `max_force`, from -1 to 1.
    """

    mass: float = number(default=1.0, doc="kilograms", above=0)
    drag: float = number(default=0.1, doc="newtons per meter per second", at_least=0)
    max_force: float = number(default=1.0, doc="newtons along each axis")
    time_step: float = number(default=0.1, doc="seconds between two actions", above=0)
    velocity_cost: float = number(default=0.1, doc="cost of a square meter per square second", at_least=0)
    action_cost: float = number(default=0.01, doc="cost of a full force along one axis", at_least=0)
    time_limit: int = number(default=100, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[PointMassState, Array]:
        """Sample the position uniformly from -1 .. 1 along each axis; the mass is at rest."""
        start = jax.random.uniform(key, (2,), jnp.float32, -1.0, 1.0)
        state = PointMassState(
            x=start[0], y=start[1], velocity_x=jnp.float32(0), velocity_y=jnp.float32(0), time=jnp.int32(0)
        )
        return state, self._observe(state)

    def step(self, key: Key, state: PointMassState, action: Array) -> tuple[PointMassState, TimeStep]:
        """Integrate the equation of motion by one semi-implicit Euler step."""
        action = jnp.clip(action, -1.0, 1.0)
        place = state.x**2 + state.y**2
        speed = state.velocity_x**2 + state.velocity_y**2
        effort = action[0] ** 2 + action[1] ** 2
        cost = place + self.velocity_cost * speed + self.action_cost * effort
        rate = self.time_step / self.mass
        velocity_x = state.velocity_x + rate * (self.max_force * action[0] - self.drag * state.velocity_x)
        velocity_y = state.velocity_y + rate * (self.max_force * action[1] - self.drag * state.velocity_y)
        state = PointMassState(
            x=state.x + self.time_step * velocity_x,
            y=state.y + self.time_step * velocity_y,
            velocity_x=velocity_x,
            velocity_y=velocity_y,
            time=state.time + 1,
        )
        return state, TimeStep.transition(self._observe(state), -cost, time_up=state.time >= self.time_limit)

    def _observe(self, state: PointMassState) -> Array:
        return jnp.stack([state.x, state.y, state.velocity_x, state.velocity_y])

    def render(self, state: PointMassState) -> np.ndarray:
        """Draw the mass, its velocity and the origin: u8[H, W, 3]."""
        x, y = float(state.x), float(state.y)
        canvas = Canvas((-1.5, 1.5), (-1.5, 1.5), width=320)
        canvas.line([(-0.1, 0), (0.1, 0)], GREEN, 0.03)
        canvas.line([(0, -0.1), (0, 0.1)], GREEN, 0.03)
        canvas.line([(x, y), (x + 0.3 * float(state.velocity_x), y + 0.3 * float(state.velocity_y))], SILVER, 0.04)
        canvas.circle((x, y), 0.08, BLUE)
        return canvas.pixels()

    @property
    def observation_space(self) -> Box:
        """f32[4]."""
        return Box(low=-jnp.inf, high=jnp.inf, shape=(4,))

    @property
    def action_space(self) -> Box:
        """f32[2], the force."""
        return Box(low=-1.0, high=1.0, shape=(2,))
